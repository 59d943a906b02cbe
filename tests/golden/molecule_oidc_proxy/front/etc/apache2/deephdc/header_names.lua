-- Made by deephdc.accelerators, role oidc_proxy: changes are lost with its next run.
-- Refuses a request with a header that a server may read as one that only the front writes, such as X~Remote~User.
-- Rules of mod_setenvif see the last header of several that fit, so an empty one would hide the others.
require 'apache2'

local names = {
  ['x-remote-user'] = true,
  ['x-role'] = true,
  ['remote-user'] = true,
  ['x-user'] = true,
  ['x-forwarded-user'] = true,
  ['x-forwarded-preferred-username'] = true,
  ['x-forwarded-email'] = true,
  ['x-forwarded-group'] = true,
  ['x-forwarded-groups'] = true,
  ['x-forwarded-roles'] = true,
  ['x-auth-request-email'] = true,
  ['x-auth-request-groups'] = true,
  ['x-auth-request-user'] = true,
  ['x-auth-token'] = true,
  ['x-auth-user'] = true,
  ['x-auth-username'] = true,
  ['x-authenticated-user'] = true,
  ['x-remote-email'] = true,
  ['x-remote-group'] = true,
  ['x-remote-groups'] = true,
  ['x-remote-name'] = true,
  ['x-user-id'] = true,
  ['x-user-name'] = true,
  ['x-username'] = true,
  ['x-roles'] = true,
  ['x-webauth-email'] = true,
  ['x-webauth-groups'] = true,
  ['x-webauth-name'] = true,
  ['x-webauth-role'] = true,
  ['x-webauth-user'] = true,
  ['remote-email'] = true,
  ['remote-groups'] = true,
  ['remote-name'] = true,
  ['x-proxyuser-ip'] = true,
  ['x-slurm-user-name'] = true,
  ['x-slurm-user-token'] = true,
  ['x-token-subject'] = true,
  ['x-token-issuer'] = true,
  ['x-token-groups'] = true,
  ['x-remote-uid'] = true,
  ['x-auth-request-preferred-username'] = true,
  ['x-forwarded-id-token'] = true,
  ['x-amzn-oidc-identity'] = true,
  ['x-amzn-oidc-data'] = true,
  ['x-amzn-oidc-accesstoken'] = true,
  ['cf-access-jwt-assertion'] = true,
  ['cf-access-authenticated-user-email'] = true,
  ['x-consumer-id'] = true,
  ['x-consumer-username'] = true,
  ['x-consumer-custom-id'] = true,
  ['x-consumer-groups'] = true,
  ['x-grafana-org-id'] = true,
  ['x-scope-orgid'] = true,
  ['x-ms-client-principal'] = true,
  ['x-ms-client-principal-id'] = true,
  ['x-ms-client-principal-name'] = true,
  ['x-ms-client-principal-idp'] = true,
  ['x-goog-authenticated-user-email'] = true,
  ['x-goog-authenticated-user-id'] = true,
  ['x-goog-iap-jwt-assertion'] = true,
  ['iv-user'] = true,
  ['iv-groups'] = true,
  ['auth-user'] = true,
  ['impersonate-user'] = true,
  ['impersonate-group'] = true,
  ['impersonate-uid'] = true,
  ['x-auth-request-access-token'] = true,
  ['x-forwarded-access-token'] = true,
  ['x-forwarded-client-cert'] = true,
  ['x-forwarded-for'] = true,
  ['x-forwarded-host'] = true,
  ['x-forwarded-method'] = true,
  ['x-forwarded-uri'] = true,
  ['x-forwarded-proto'] = true,
  ['x-forwarded-port'] = true,
  ['x-forwarded-server'] = true,
  ['x-forwarded-prefix'] = true,
  ['x-forwarded-scheme'] = true,
  ['x-forwarded-ssl'] = true,
  ['x-scheme'] = true,
  ['x-host'] = true,
  ['x-original-host'] = true,
  ['x-original-url'] = true,
  ['x-original-uri'] = true,
  ['x-originating-ip'] = true,
  ['x-rewrite-url'] = true,
  ['x-http-method'] = true,
  ['x-http-method-override'] = true,
  ['x-method-override'] = true,
  ['x-real-ip'] = true,
  ['x-client-ip'] = true,
  ['x-cluster-client-ip'] = true,
  ['cf-connecting-ip'] = true,
  ['client-ip'] = true,
  ['true-client-ip'] = true,
  ['front-end-https'] = true,
  ['x-client-cert'] = true,
  ['x-ssl-cert'] = true,
  ['x-ssl-client-cert'] = true,
  ['ssl-client-cert'] = true,
  ['ssl-client-s-dn'] = true,
  ['ssl-client-verify'] = true,
  ['x-ssl-client-cn'] = true,
  ['oidc-access-token'] = true,
  ['oidc-access-token-expires'] = true,
  ['oidc-id-token'] = true,
  ['oidc-refresh-token'] = true,
  ['oidc-userinfo-json'] = true,
  ['oidc-sub'] = true,
}
local beginnings = {'impersonate-extra-', 'x-remote-extra-', 'x-authentik-', 'x-ms-token-'}

local function odd(name)
  local plain = name:lower():gsub('[^a-z0-9]', '-')
  if names[plain] then return true end
  for _, beginning in ipairs(beginnings) do
    if #plain > #beginning and plain:sub(1, #beginning) == beginning then return true end
  end
  return false
end

function header_names(r)
  -- Not of error pages and the like: by then the front has written its own headers.
  local env = r.subprocess_env
  if env['DEEPHDC_NAMES_READ'] or env['REDIRECT_DEEPHDC_NAMES_READ'] then return apache2.DECLINED end
  env['DEEPHDC_NAMES_READ'] = '1'
  for name in pairs(r:headers_in_table()) do
    if odd(name) then return 400 end
  end
  return apache2.DECLINED
end
