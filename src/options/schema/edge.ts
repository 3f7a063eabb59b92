import { Type } from 'typebox'
import { keys, option, pemFile, rate, withDefault, wordOrWords, words } from './option.ts'

/** Options of the server: the checks before all routes. */
export const edgeOptions = {
  tls: option(
    { errors: ['WASM_SERVE_TLS_INVALID'] },
    Type.Optional(
      Type.Object(
        {
          cert: pemFile('Certificate file (PEM), with intermediate certificates.'),
          key: pemFile('Private key file (PEM).'),
          ca: Type.Optional(pemFile('Certificate authority (PEM) of required client certificates.')),
          minVersion: option(
            { flag: false },
            Type.Optional(
              Type.Enum(['TLSv1.2', 'TLSv1.3'], { description: 'Minimum TLS version. Default: TLSv1.2.' }),
            ),
          ),
        },
        {
          additionalProperties: false,
          examples: [{ cert: 'cert.pem', key: 'key.pem' }],
          description: 'Serve HTTPS: `cert`, `key`, `ca`, `minVersion`.',
        },
      ),
    ),
  ),
  http2: withDefault(
    Type.Boolean({
      default: false,
      description: 'Offer HTTP/2 in addition to HTTP/1.1. Requires `tls`.',
    }),
  ),
  apiKeys: option(
    { flag: false, reach: 'answer', owner: 'fleet' },
    Type.Optional(
      keys(
        'API keys, one of which each request must have: `Authorization: Bearer KEY` or `x-api-key`. Default: none.',
      ),
    ),
  ),
  jwt: option(
    { reach: 'answer', owner: 'fleet', errors: ['WASM_SERVE_JWT_KEY_INVALID'] },
    Type.Optional(
      Type.Object(
        {
          secret: option(
            { flag: false },
            Type.Optional(
              Type.String({
                pattern: '^[^]{32,}$',
                hint: 'must be 32 characters or more',
                secret: true,
                description: 'Secret that signs the tokens (HS256, HS384, HS512).',
              }),
            ),
          ),
          publicKey: Type.Optional(pemFile('File with the public key or certificate of tokens (PEM).')),
          jwks: Type.Optional(
            Type.String({
              minLength: 1,
              holds: 'path',
              description: 'File with the JSON Web Key Set of tokens.',
            }),
          ),
          jwksUrl: Type.Optional(
            Type.String({
              minLength: 1,
              description: "URL (https) of the issuer's JSON Web Key Set, fetched regularly.",
            }),
          ),
          jwksCa: Type.Optional(
            pemFile('Certificate authority (PEM) of `jwksUrl`. Default: those of Node.js.'),
          ),
          algorithms: Type.Optional(
            Type.Array(
              Type.Enum([
                ...['HS256', 'HS384', 'HS512', 'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
                ...['ES256', 'ES384', 'ES512', 'EdDSA'],
              ] as const),
              {
                minItems: 1,
                description: 'Allowed signature algorithms. Default: those of the keys.',
              },
            ),
          ),
          audience: Type.Optional(wordOrWords('Allowed values of `aud`. Default: any.')),
          issuer: Type.Optional(wordOrWords('Allowed values of `iss`. Default: any.')),
          allowNoExpiry: Type.Optional(
            Type.Boolean({ description: 'Accept tokens without `exp`. Default: false.' }),
          ),
        },
        {
          additionalProperties: false,
          examples: [{ publicKey: 'issuer.pem', audience: 'https://api.example' }],
          description:
            'Require a JSON Web Token: `secret`, `publicKey`, `jwks` or `jwksUrl`, `audience`, `issuer`... (jose)',
        },
      ),
    ),
  ),
  cors: option(
    { flag: false, reach: 'answer', owner: 'fleet' },
    Type.Optional(
      Type.Object(
        {
          origin: words('Allowed origins, such as `https://a.example`; `*`: all.'),
          methods: Type.Optional(words('Allowed methods. Default: GET, HEAD and POST.')),
          allowedHeaders: Type.Optional(
            words('Allowed request headers. Default: those of the preflight request.'),
          ),
          exposedHeaders: Type.Optional(words('Response headers that pages may read.')),
          credentials: Type.Optional(
            Type.Boolean({ description: 'Allow cookies. Requires `origin` without `*`.' }),
          ),
          maxAge: Type.Optional(
            Type.Integer({
              minimum: 0,
              description: 'Time for which browsers may cache a preflight response, in seconds.',
            }),
          ),
        },
        {
          additionalProperties: false,
          examples: [{ origin: ['https://a.example'] }],
          description: 'CORS: `origin`, `methods`, `credentials`... (@fastify/cors)',
        },
      ),
    ),
  ),
  rateLimit: option(
    { flag: false, reach: 'answer', owner: 'fleet' },
    rate(
      'requests per client address',
      'Rate limit per client address: `max` requests in `timeWindowMs`; then 429. (@fastify/rate-limit)',
    ),
  ),
  compress: option(
    { flag: false, reach: 'answer', owner: 'fleet' },
    Type.Optional(
      Type.Object(
        {
          thresholdBytes: Type.Optional(
            Type.Integer({
              unit: 'bytes',
              minimum: 0,
              description: 'Minimum size of a response to compress, in bytes. Default: 1024.',
            }),
          ),
          encodings: Type.Optional(
            Type.Array(Type.Enum(['br', 'gzip', 'deflate']), {
              minItems: 1,
              description: 'Encodings in order of preference. Default: all.',
            }),
          ),
        },
        {
          additionalProperties: false,
          examples: [{ thresholdBytes: 1024 }],
          description: 'Compress responses: `thresholdBytes`, `encodings`. (@fastify/compress)',
        },
      ),
    ),
  ),
  etag: option(
    { reach: 'answer', owner: 'fleet' },
    withDefault(
      Type.Boolean({
        default: false,
        description: "Add an `ETag`, and respond with 304 if the client's copy is current.",
      }),
    ),
  ),
  static: option(
    { flag: false, reach: 'answer', owner: 'fleet', errors: ['WASM_SERVE_STATIC_FOLDER_INVALID'] },
    Type.Optional(
      Type.Record(Type.String({ pattern: '^/' }), Type.String({ minLength: 1, holds: 'path' }), {
        additionalProperties: false,
        hint: 'must begin with /, such as /assets',
        examples: [{ '/assets': 'public' }],
        description: 'Folders of static files: URL prefix to folder. (@fastify/send)',
      }),
    ),
  ),
  trustProxy: option(
    { reach: 'answer', owner: 'fleet' },
    Type.Optional({
      ...words('Proxies whose `X-Forwarded-For` is trusted: addresses, networks, `loopback`.'),
      examples: [['10.0.0.0/8', 'loopback']],
    }),
  ),
}
