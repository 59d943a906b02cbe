-- Made by deephdc.accelerators
-- "Require jwt-times": neither nbf nor iat of a token lies in the future, with 30 s for clocks that differ.
require 'apache2'

function jwt_times(r)
  local latest = os.time() + 30
  for _, claim in ipairs({'OIDC_CLAIM_nbf', 'OIDC_CLAIM_iat'}) do
    local value = r.subprocess_env[claim]
    local moment = tonumber(value)
    if value and not (moment and moment >= 0 and moment <= latest) then return apache2.AUTHZ_DENIED end
  end
  return apache2.AUTHZ_GRANTED
end
