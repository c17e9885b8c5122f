// The authorization server of these tests: npm's `oidc-provider`, with nothing of its protocol changed.
//
// Run by `authorization_server.py`, which sends its settings as a line of JSON. Prints its port. At /test/ it
// returns what it counted, and takes the faults that a test wants to see handled.

import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const parent = createInterface({ input: process.stdin });
const settings = JSON.parse(await new Promise((resolve) => parent.once('line', resolve)));
const { default: Provider } = await import(`${settings.modules}/oidc-provider/lib/index.js`);

let counts = {}; // requests by "route grant_type status"
const secrets = new Set(); // every code, verifier, token and client secret
let faults = {}; // see `spoil` in authorization_server.py
const lifetime = () => faults.lifetime ?? settings.lifetime;

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: settings.clients,
  scopes: ['openid', 'offline_access'],
  clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
  pkce: { required: () => true },
  cookies: { keys: ['only for tests'] },
  claims: { openid: ['sub'], groups: ['groups'], email: ['email', 'email_verified'] },
  conformIdTokenClaims: settings.conform,
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, ...settings.people[id] }) }),
  issueRefreshToken: (ctx, client) => settings.refresh_tokens && client.grantTypeAllowed('refresh_token'),
  expiresWithSession: () => false,
  rotateRefreshToken: () => settings.rotate,
  ttl: {
    AccessToken: lifetime,
    ClientCredentials: lifetime,
    RefreshToken: settings.refresh_lifetime,
    DeviceCode: 600,
    Grant: 3600,
    Session: 3600,
    Interaction: 600,
  },
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: settings.registration },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    dPoP: {
      enabled: settings.dpop,
      nonceSecret: Buffer.alloc(32, 7),
      requireNonce: () => settings.dpop_nonce,
    },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: settings.scopes.join(' '),
        audience: resource,
        accessTokenTTL: lifetime(),
        accessTokenFormat: faults.format ?? 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  // Client metadata documents are at https URLs of other hosts; here they come from the settings.
  fetch: async (url) =>
    String(url) in settings.documents
      ? Response.json(settings.documents[String(url)])
      : new Response('not found', { status: 404 }),
});

function remember(...values) {
  for (const value of values) if (value) secrets.add(value);
}

function note(context) {
  const { body, response } = context;
  const route = context.oidc?.route ?? context.path;
  const grant = route === 'token' ? (context.oidc.params?.grant_type ?? '?').split(':').at(-1) : '';
  const key = [route, grant, context.status].filter(String).join(' ');
  counts[key] = (counts[key] ?? 0) + 1;
  if (body && typeof body === 'object') {
    remember(body.access_token, body.refresh_token, body.id_token, body.device_code);
    remember(body.client_secret, body.registration_access_token);
  }
  remember(context.oidc?.params?.code_verifier);
  const location = response.get('location');
  if (location) remember(new URL(location, issuer).searchParams.get('code'));
}

function spoil(context) {
  if (context.body?.device_code) context.body.interval = 1; // seconds between questions; it names none
  if (context.path.startsWith('/.well-known/o')) {
    if (faults.redirect) return context.redirect(faults.redirect);
    const { metadata = {}, padding = 0 } = faults;
    const changed = { ...context.body, ...metadata };
    for (const key of Object.keys(metadata)) if (metadata[key] === null) delete changed[key];
    context.body = padding ? { ...changed, padding: 'x'.repeat(padding) } : changed;
  }
  const location = context.response.get('location');
  if (faults.iss !== undefined && location?.includes('iss=')) {
    const changed = new URL(location);
    if (faults.iss === null) changed.searchParams.delete('iss');
    else changed.searchParams.set('iss', faults.iss);
    context.set('location', String(changed));
  }
}

provider.use(async (context, next) => {
  if (faults.status && context.path === '/token') {
    context.status = faults.status;
    context.body = faults.answer ?? 'broken';
  } else {
    await next();
    spoil(context);
  }
  note(context);
});

async function answerTest(request, response) {
  if (request.method === 'DELETE') {
    counts = {};
    faults = {};
  } else if (request.method === 'POST') {
    const parts = [];
    for await (const part of request) parts.push(part);
    faults = JSON.parse(Buffer.concat(parts));
  }
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ counts, secrets: [...secrets] }));
}

const answer = provider.callback();
server.on('request', (request, response) =>
  request.url === '/test/' ? answerTest(request, response) : answer(request, response),
);
parent.on('close', () => process.exit()); // its parent is gone
console.log(server.address().port);
