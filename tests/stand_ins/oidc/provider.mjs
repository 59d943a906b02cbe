// The site's identity provider in tests: npm oidc-provider with clients, users and a login page. Only the set-up is ours.
//
// usage: node provider.mjs CONFIGURATION.json
// configuration: {issuer, port, certificate, key, ca, keys, users, clients, resources}; see molecule/oidc_proxy/identity.yml.
// keys is a file {"all": [private JWKs], "active": [key ids], "seconds": life of access tokens}; it is made where it does not exist,
// and read at the start: a test rotates keys by writing it and starting the provider anew.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { exportJWK, generateKeyPair } from 'jose';
import { Provider } from 'oidc-provider';

const site = JSON.parse(readFileSync(process.argv[2]));

if (!existsSync(site.keys)) {
  const all = [];
  for (const kid of ['key1', 'key2']) {
    const { privateKey } = await generateKeyPair('RS256', { extractable: true });
    all.push({ ...await exportJWK(privateKey), kid, use: 'sig', alg: 'RS256' });
  }
  writeFileSync(site.keys, JSON.stringify({ all, active: ['key1'], seconds: 600 }), { mode: 0o600 });
}
const keys = JSON.parse(readFileSync(site.keys));

const person = (sub) => site.users.find((user) => user.sub === sub);
const claims = (sub) => {
  const user = person(sub);
  return { sub, preferred_username: user.name, email: `${user.name}@site.test`, groups: user.groups };
};

const provider = new Provider(site.issuer, {
  clients: site.clients,
  jwks: { keys: keys.all.filter((key) => keys.active.includes(key.kid)) },
  findAccount: (_ctx, sub) => person(sub) && { accountId: sub, claims: async () => claims(sub) },
  claims: { openid: ['sub'], email: ['email'], profile: ['preferred_username'], groups: ['groups'] },
  scopes: ['openid', 'offline_access', 'email', 'profile', 'groups', ...site.scopes],
  cookies: { keys: ['only for tests'] },
  pkce: { required: () => true },
  ttl: { AccessToken: keys.seconds, ClientCredentials: keys.seconds, IdToken: 300, Session: 3600, Interaction: 600, Grant: 3600 },
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  features: {
    backchannelLogout: { enabled: true },
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: true },
    rpInitiatedLogout: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => ({
        audience: resource,
        scope: site.scopes.join(' '),
        accessTokenTTL: keys.seconds,
        accessTokenFormat: resource.includes('opaque') ? 'opaque' : 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  extraTokenClaims: (_ctx, token) => (token.accountId
    ? { preferred_username: person(token.accountId).name, groups: person(token.accountId).groups }
    : { preferred_username: `service-${token.clientId}`, groups: ['gpu'] }),
  // The site's own programs: nobody is asked for consent.
  loadExistingGrant: async (ctx) => {
    const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addOIDCScope(['openid offline_access email profile groups', ...site.scopes].join(' '));
    for (const resource of [ctx.oidc.params.resource ?? []].flat()) grant.addResourceScope(resource, site.scopes.join(' '));
    await grant.save();
    return grant;
  },
  // The library's own guard refuses private addresses, where a site's front is. A busy test machine answers within seconds, not at once.
  fetch: (url, options) => {
    delete options.dispatcher;
    return globalThis.fetch(url, { ...options, signal: AbortSignal.timeout(20000) });
  },
});
for (const event of ['server_error', 'authorization.error', 'grant.error', 'introspection.error', 'backchannel.error', 'backchannel.success']) {
  provider.on(event, (...said) => console.log(event, said.map((one) => (one?.message ? `${one.message} ${one.error_description ?? ''}` : '')).join(' ')));
}

const page = (error) => `<!doctype html><html lang="en"><title>Sign in</title><h1>Sign in</h1><p id="error">${error}</p>
<form method="post"><label>Name <input name="name" autofocus></label> <label>Password <input name="password" type="password"></label>
<button id="sign-in">Sign in</button></form></html>`;

async function interaction(request, response) {
  const details = await provider.interactionDetails(request, response);
  let error = '';
  if (request.method === 'POST') {
    let body = '';
    for await (const part of request) body += part;
    const form = new URLSearchParams(body);
    const user = site.users.find((one) => one.name === form.get('name') && one.name === form.get('password'));
    if (user) {
      await provider.interactionFinished(request, response, { login: { accountId: user.sub } }, { mergeWithLastSubmission: false });
      return;
    }
    error = 'Unknown name or wrong password';
  }
  response.writeHead(details.prompt.name === 'login' ? 200 : 400, { 'content-type': 'text/html' });
  response.end(details.prompt.name === 'login' ? page(error) : `unexpected prompt ${JSON.stringify(details.prompt)}`);
}

const answer = provider.callback();
createServer({ key: readFileSync(site.key), cert: readFileSync(site.certificate) }, (request, response) => {
  if (request.url.startsWith('/interaction/')) {
    interaction(request, response).catch((error) => { response.writeHead(400); response.end(String(error)); });
  } else {
    answer(request, response);
  }
}).listen(site.port, () => console.log('serving', site.issuer, 'with', keys.active.join(' ')));
