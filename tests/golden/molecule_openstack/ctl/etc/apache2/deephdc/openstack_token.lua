-- Made by deephdc.accelerators
-- "Require openstack-token": neither nbf nor iat of a token lies in the future, with 30 s for clocks that differ.
require 'apache2'

function openstack_token(r)
  local latest = os.time() + 30
  for _, claim in ipairs({'OIDC_CLAIM_nbf', 'OIDC_CLAIM_iat'}) do
    local value = r.subprocess_env[claim]
    local moment = tonumber(value)
    if value and not (moment and moment >= 0 and moment <= latest) then return apache2.AUTHZ_DENIED end
  end
  if r.user then r.subprocess_env['DEEPHDC_TOKEN_ID'] = r.user .. '.' .. r:sha1(r.user):sub(1, 16) end
  return apache2.AUTHZ_GRANTED
end
