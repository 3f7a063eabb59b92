import {
  type Static,
  type TObject,
  type TOptional,
  type TProperties,
  type TSchema,
  type TUnsafe,
  Type,
} from 'typebox'
import { LIMIT_NAMES, type ModuleLimits } from '../module/limits.ts'

/*
 * The only description of the options: types, defaults, checks, the published JSON schema, the flags and the
 * README's tables come from here. The build turns this module into plain data and plain types, so TypeBox is needed
 * neither to serve nor to use the types of the package.
 */

declare const defaulted: unique symbol

/** Marks an option that may be left out and then has its schema's `default`. */
interface WithDefault {
  readonly [defaulted]: true
}

const withDefault = <Schema extends TSchema>(schema: Schema) =>
  Type.Optional(schema) as TOptional<Schema> & WithDefault

const only = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false })

/** A path or URL in JSON; `pluginSource` is a keyword of our options check, for what only a library user can pass. */
const pluginSource = (description: string): TUnsafe<string | object> =>
  Type.Unsafe<string | object>({ pluginSource: true, description })

/*
 * `holds` marks what has paths in it: `path`, `source` (path or URL) or `folders` (the keys are paths), `store` (`lmdb:` and a path),
 * `address` (or a path with a slash in it). In a config file they are relative to the file.
 *
 * `unit` is what a number counts: `bytes`, `pages` of 64 KiB, `ms`. It decides how its text is read.
 */

/** A path in JSON; `hostFunctions` is a keyword of our options check, like `pluginSource`. */
const hostFunctionsPath = (description: string): TUnsafe<string | object> =>
  Type.Unsafe<string | object>({ hostFunctions: true, description })

/** No JSON: `callHook` is a keyword of our options check, for functions of a library user. */
const callHook = (description: string): TUnsafe<object> =>
  Type.Unsafe<object>({ callHook: true, description })

/** Of the Fastify plugin for all routes, and of a route; `CallHooks` has their types. */
const callHooks = {
  onCall: Type.Optional(
    callHook('Function that is called before the guest; it may replace its input, or refuse.'),
  ),
  onResult: Type.Optional(
    callHook('Function that is told what the guest produced, once that is on its way.'),
  ),
  onError: Type.Optional(callHook('Function that is told why a call failed, once that is on its way.')),
}

/** `threadCount` is a keyword of our options check: a number, or `auto`. */
const threadCount = (description: string): TUnsafe<number | 'auto'> =>
  Type.Unsafe<number | 'auto'>({ threadCount: true, description })

/** One of these names in JSON; `nameOrContract` is a keyword of our options check, like `pluginSource`. */
const nameOrContract = <const Names extends readonly string[]>(
  names: Names,
  options: { default: Names[number]; description: string },
): TUnsafe<Names[number] | object> =>
  Type.Unsafe<Names[number] | object>({ nameOrContract: names, ...options })

const oneOrSeveral = <const Names extends readonly string[]>(names: Names, description: string) =>
  Type.Unsafe<Names[number] | Names[number][]>({
    anyOf: [
      { type: 'string', enum: names },
      { type: 'array', items: { type: 'string', enum: names }, minItems: 1, uniqueItems: true },
    ],
    description,
  })

const texts = (description: string, values = Type.String()) =>
  withDefault(Type.Record(Type.String(), values, { default: {}, description }))

/** Hosts; `allowedHost` is a keyword of our options check, which says what is wrong with one. */
const hosts = (description: string) =>
  Type.Optional(Type.Array(Type.Unsafe<string>({ type: 'string', allowedHost: true }), { description }))

const words = (description: string) => Type.Array(Type.String({ minLength: 1 }), { minItems: 1, description })

const pemFile = (description: string) => Type.String({ minLength: 1, holds: 'path', description })

/** What only those who may use the server know; `secret` marks what nothing shows. */
const key = (description?: string) =>
  Type.String({
    pattern: '^[!-~]{16,}$',
    hint: 'must be 16 characters or more, all visible ASCII characters',
    secret: true,
    ...(description !== undefined && { description }),
  })

const keys = (description: string) => Type.Array(key(), { minItems: 1, description })

const ms = (description: string, value: number, minimum = 1) =>
  withDefault(Type.Integer({ minimum, maximum: 2_147_483_647, default: value, unit: 'ms', description }))

/** Bytes; as text also a size such as `64KiB`. */
const bytes = (description: string, value: number) =>
  withDefault(Type.Integer({ minimum: 1, default: value, unit: 'bytes', description }))

const countOption = (description: string, value: number) =>
  withDefault(Type.Integer({ minimum: 1, default: value, description }))

export const routeSchema = only({
  method: Type.Optional(
    oneOrSeveral(
      ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', '*'],
      'Methods that are answered, `*` for all. Default: POST; all with `simplism`.',
    ),
  ),
  url: withDefault(
    Type.String({
      pattern: '^/',
      default: '/',
      description: 'Where the route answers: `/`, `/users/:id`, `/files/*`. (Fastify)',
    }),
  ),
  host: Type.Optional(
    Type.String({
      pattern: '^(?:[A-Za-z0-9_.-]+|\\[[A-Fa-f0-9:.]+\\])$',
      description: 'The only host name that the route answers to, whatever the port. Default: any.',
    }),
  ),
  plugin: pluginSource('The plug-in: path or URL of a `.wasm` file or of an Extism manifest.'),
  function: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'The export that is called. Default: the only one that can be called.',
    }),
  ),
  contract: withDefault(
    nameOrContract(['raw', 'http', 'simplism'], {
      default: 'raw',
      description: 'How the guest gets requests and gives answers: raw, http or simplism.',
    }),
  ),
  config: texts('What the guest reads with `config_get`.'),
  functions: Type.Optional(
    hostFunctionsPath('Host functions of your own: path of a module that exports them.'),
  ),
  links: texts(
    'Modules that the plug-in imports from: name to path or URL.',
    Type.String({ holds: 'source' }),
  ),
  wasi: withDefault(Type.Boolean({ default: true, description: 'Give the guest WASI preview 1.' })),
  bodyLimit: bytes('Largest request body, in bytes; larger ones are answered with 413.', 1_048_576),
  outputLimit: bytes('Largest output of a guest, in bytes; larger ones are answered with 502.', 8_388_608),
  contentType: Type.Optional(
    Type.String({
      pattern: '^[!-~][ -~]*$',
      description: 'Content type of the answers. Default: text if the output is valid UTF-8, else bytes.',
    }),
  ),
  headers: texts('Headers of each answer, also of failures; what the guest sets wins.'),
  errorStatus: Type.Optional(
    Type.Integer({
      minimum: 400,
      maximum: 599,
      description: 'Status when the guest says no. Default: 409; 500 with `simplism`.',
    }),
  ),
  description: Type.Optional(Type.String({ description: 'What the route is for, in your words.' })),
  runtime: withDefault(
    Type.Enum(['kernel', 'sdk'], {
      default: 'kernel',
      description: "What joins guest and host: our own kernel, or Extism's SDK as a reference.",
    }),
  ),
  isolation: withDefault(
    Type.Enum(['reuse', 'fresh'], {
      default: 'reuse',
      description: 'Whether an instance serves call after call, or one.',
    }),
  ),
  recycle: Type.Optional(
    Type.Integer({ minimum: 1, description: 'Calls after which an instance is replaced. Default: never.' }),
  ),
  recycleMemory: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      description: 'Bytes of memory beyond which an instance is replaced. Default: 3/4 of memoryMax.',
    }),
  ),
  env: texts('Environment variables of the guest (WASI).'),
  allowedPaths: withDefault(
    Type.Record(Type.String(), Type.String(), {
      default: {},
      holds: 'folders',
      description: 'Folders of the guest (WASI): host path to guest path; `ro:` in front: read-only.',
    }),
  ),
  allowedHosts: hosts("Hosts that the guest may send HTTP requests to. Default: the manifest's, else none."),
  memoryMax: Type.Optional(
    Type.Integer({
      unit: 'pages',
      minimum: 1,
      maximum: 65_536,
      description: "Most memory of the guest, in pages of 64 KiB. Default: the manifest's, else 2048.",
    }),
  ),
  blockLimit: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      maximum: 2_147_483_647,
      description: "Most bytes exchanged a call. Default: the manifest's max_pages, up to 67108864. (kernel)",
    }),
  ),
  varMax: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 0,
      description: "Most bytes of variables of an instance. Default: the manifest's, else 1048576.",
    }),
  ),
  httpResponseMax: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 0,
      description: "Most bytes that answer a guest's HTTP request. Default: the manifest's, else 52428800.",
    }),
  ),
  httpErrors: withDefault(
    Type.Enum(['status', 'trap'], {
      default: 'status',
      description: 'What a failed HTTP request does: gives the guest status 0, or ends the call.',
    }),
  ),
  engine: Type.Optional(
    Type.Enum(['inline', 'workers', 'subprocess'], {
      description: 'Where instances run: on the event loop (default), in threads, or in processes.',
    }),
  ),
  process: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Name of the processes that a route shares with those that say the same. (subprocess)',
    }),
  ),
  workers: Type.Optional(
    threadCount('Threads or processes for calls; auto: as many as cores. Default: 1 if needed.'),
  ),
  spareWorkers: withDefault(
    Type.Integer({
      minimum: 0,
      maximum: 256,
      default: 1,
      description: 'Threads, or processes, kept ready to take the place of one that was ended.',
    }),
  ),
  timeoutMs: Type.Optional(
    Type.Integer({
      unit: 'ms',
      minimum: 1,
      maximum: 2_147_483_647,
      description:
        "Ms that a guest may run off the event loop; then 504. Default: the manifest's, else 1000.",
    }),
  ),
  idempotent: withDefault(
    Type.Boolean({
      default: false,
      description: 'A call whose thread or process was lost may be run again, once.',
    }),
  ),
  vars: withDefault(
    Type.Enum(['own', 'shared'], {
      default: 'own',
      description: "Whether an instance has variables of its own, or the plug-in's share one set.",
    }),
  ),
  startTimeoutMs: ms('How long a thread or process and its instance may take to start.', 5_000),
  maxQueue: countOption('Calls that may wait for an instance; more are answered with 503.', 1_000),
  maxQueueBytes: bytes('Bytes of input that may wait; more are answered with 503. (workers)', 67_108_864),
  maxWaitMs: ms('How long a call may wait for an instance; if longer, 503. (workers)', 5_000),
  kv: Type.Optional(
    Type.Object(
      {
        access: Type.Optional(
          Type.Enum(['none', 'read', 'readwrite'], {
            description:
              'What the guest may do with the store, if it imports its functions. Default: readwrite.',
          }),
        ),
        namespace: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 255,
            description: "Where the guest's keys are in the store. Default: the plug-in's name.",
          }),
        ),
      },
      { additionalProperties: false, description: 'The store, for the guest: `access`, `namespace`.' },
    ),
  ),
  logRate: countOption('Lines that guests may log in a second, in each thread; others are dropped.', 1_000),
  smoke: Type.Optional(
    Type.Object(
      {
        method: Type.Optional(Type.String({ minLength: 1, description: "Default: the route's first." })),
        url: Type.Optional(Type.String({ pattern: '^/', description: "Default: the route's." })),
        headers: Type.Optional(
          Type.Record(Type.String(), Type.String(), { description: 'Headers of the request.' }),
        ),
        body: Type.Optional(Type.String({ description: 'Default: none.' })),
        status: Type.Optional(
          Type.Integer({
            minimum: 200,
            maximum: 599,
            description: 'Status that the answer must have. Default: 200.',
          }),
        ),
        answer: Type.Optional(Type.String({ description: 'Body that the answer must have. Default: any.' })),
      },
      {
        additionalProperties: false,
        description: 'A request that must be answered before the plug-in goes live.',
      },
    ),
  ),
  timing: withDefault(
    Type.Boolean({
      default: false,
      description: 'Say in each answer how long its call waited and ran (`Server-Timing`).',
    }),
  ),
  ...callHooks,
})

/** Options of the command: how plug-ins are loaded. */
export const loadSchema = only({
  cacheFolder: Type.Optional(
    Type.String({
      minLength: 1,
      holds: 'path',
      description: 'Where downloads are kept. Default: ~/.cache/wasm-serve.',
    }),
  ),
  downloadLimit: bytes('Largest download, in bytes.', 268_435_456),
  downloadTimeoutMs: ms('How long a download may take.', 30_000),
  maxFunctions: countOption('Most functions of a plug-in that are served where none is named.', 100),
  moduleLimits: withDefault(
    Type.Unsafe<ModuleLimits>({
      type: 'object',
      properties: Object.fromEntries(LIMIT_NAMES.map((name) => [name, { type: 'integer', minimum: 0 }])),
      additionalProperties: false,
      default: {},
      description: 'Other limits of what a module may ask of the compiler: name to number.',
    }),
  ),
  allowGc: withDefault(
    Type.Boolean({
      default: false,
      description: 'Load plug-ins with garbage-collected types, which no memory limit bounds.',
    }),
  ),
})

/** A host and port, a port of the loopback interface, or what has a slash in it. */
const TCP_PORT = '(?:[0-5]?\\d{1,4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])'
const ADMIN_ADDRESS = `^(?:(?:\\[[A-Fa-f0-9:.]+\\]|[A-Za-z0-9_.-]+):)?${TCP_PORT}$|/`

const stallMs = (value: number) =>
  ms('Longest that a guest may hold the event loop; then the process is killed. 0: off.', value, 0)

/** Options of the Fastify plugin. */
export const wasmServeSchema = only({
  routes: Type.Array(routeSchema, {
    minItems: 1,
    description: 'The routes, each with a plug-in instance of its own.',
  }),
  trial: withDefault(
    Type.Boolean({
      default: false,
      description: 'Start each plug-in in a throwaway thread first: for what joins a process that serves.',
    }),
  ),
  stallMs: stallMs(0), // whose process it is must ask for it
  store: withDefault(
    Type.String({
      pattern: '^(?:memory:$|lmdb:.|rediss?://.)',
      default: 'memory:',
      description: 'Where guests keep state: `memory:`, `lmdb:FOLDER` or `redis://HOST`.',
      hint: 'must be memory:, lmdb:FOLDER, redis://HOST or rediss://HOST',
      holds: 'store',
    }),
  ),
  storeMax: withDefault(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      default: 67_108_864,
      description: 'Most bytes that guests keep in memory. (`memory:`)',
    }),
  ),
  storeTimeoutMs: ms('How long an operation of the store may take. (`redis:`)', 500),
  subprocessUser: withDefault(
    Type.String({
      pattern: '^\\d+(?::\\d+)?$',
      default: '65534:65534',
      hint: 'must be numbers, UID or UID:GID',
      description: 'User and group of processes, if root starts them. (subprocess)',
    }),
  ),
  subprocessCgroup: Type.Optional(
    Type.String({
      minLength: 1,
      holds: 'path',
      description: 'Folder of the cgroup that processes join. (subprocess)',
    }),
  ),
  ...callHooks,
})

/** Options of the server: those of the Fastify plugin, and those that only a process of its own can have. */
export const serverSchema = only({
  ...wasmServeSchema.properties,
  stallMs: stallMs(10_000),
  host: withDefault(
    Type.String({ minLength: 1, default: '127.0.0.1', description: 'Address to listen on.' }),
  ),
  port: withDefault(
    Type.Integer({
      minimum: 0,
      maximum: 65_535,
      default: 8080,
      description: 'Port to listen on; 0 picks a free one.',
    }),
  ),
  socket: Type.Optional(
    Type.String({
      minLength: 1,
      holds: 'path',
      description: 'Path of a Unix socket to listen on, instead of host and port.',
    }),
  ),
  reusePort: withDefault(
    Type.Boolean({
      default: false,
      description:
        'Share the port with other processes that say so too: for upgrades. (Linux, Node.js 22.12)',
    }),
  ),
  tls: Type.Optional(
    Type.Object(
      {
        cert: pemFile('Serve HTTPS: the certificate, with those up to its authority.'),
        key: pemFile('Private key of the certificate.'),
        ca: Type.Optional(pemFile('Authority whose certificates clients must have.')),
        minVersion: Type.Optional(
          Type.Enum(['TLSv1.2', 'TLSv1.3'], { description: 'Least version of TLS. Default: TLSv1.2.' }),
        ),
      },
      { additionalProperties: false, description: 'Serve HTTPS: `cert`, `key`, `ca`, `minVersion`.' },
    ),
  ),
  http2: withDefault(
    Type.Boolean({
      default: false,
      description: 'Speak HTTP/2 with clients that ask for it, and HTTP/1.1 with others. Needs `tls`.',
    }),
  ),
  apiKeys: Type.Optional(
    keys(
      'Keys of which a request must carry one: `Authorization: Bearer KEY` or `x-api-key`. Default: none.',
    ),
  ),
  jwt: Type.Optional(
    Type.Object(
      {
        secret: Type.Optional(
          Type.String({
            pattern: '^[^]{32,}$',
            hint: 'must be 32 characters or more',
            secret: true,
            description: 'The secret that tokens are signed with (HS256, HS384, HS512).',
          }),
        ),
        publicKey: Type.Optional(
          pemFile('File of the public key, or certificate, that tokens are verified with.'),
        ),
        jwks: Type.Optional(
          Type.String({
            minLength: 1,
            holds: 'path',
            description: 'File with a JSON Web Key Set that tokens are verified with.',
          }),
        ),
        jwksUrl: Type.Optional(
          Type.String({
            minLength: 1,
            description: "URL (https) of the issuer's JSON Web Key Set, whose keys may change.",
          }),
        ),
        jwksCa: Type.Optional(pemFile("Authority of that URL's certificate. Default: those of Node.js.")),
        algorithms: Type.Optional(
          Type.Array(
            Type.Enum([
              ...['HS256', 'HS384', 'HS512', 'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
              ...['ES256', 'ES384', 'ES512', 'EdDSA'],
            ] as const),
            {
              minItems: 1,
              description: 'Algorithms of tokens that are allowed. Default: all that the keys are for.',
            },
          ),
        ),
        audience: Type.Optional(words('What `aud` of a token must be, one of these. Default: anything.')),
        issuer: Type.Optional(words('What `iss` of a token must be, one of these. Default: anything.')),
        allowNoExpiry: Type.Optional(
          Type.Boolean({ description: 'Whether tokens without `exp`, which never expire, are accepted.' }),
        ),
      },
      {
        additionalProperties: false,
        description:
          'Requests need a token: `secret`, `publicKey`, `jwks` or `jwksUrl`, `audience`, `issuer`... (jose)',
      },
    ),
  ),
  cors: Type.Optional(
    Type.Object(
      {
        origin: words('Origins whose pages may read answers, such as `https://a.example`; `*`: all.'),
        methods: Type.Optional(words('Methods that their pages may use. Default: GET, HEAD and POST.')),
        allowedHeaders: Type.Optional(words('Headers that they may send. Default: those that they ask for.')),
        exposedHeaders: Type.Optional(words('Headers that they may read.')),
        credentials: Type.Optional(
          Type.Boolean({ description: 'Whether they may send cookies; then each origin must be named.' }),
        ),
        maxAge: Type.Optional(
          Type.Integer({ minimum: 0, description: 'Seconds that browsers may remember this.' }),
        ),
      },
      {
        additionalProperties: false,
        description: 'Let pages of other origins in: `origin`, `methods`, `credentials`... (@fastify/cors)',
      },
    ),
  ),
  rateLimit: Type.Optional(
    Type.Object(
      {
        max: Type.Integer({ minimum: 1, description: 'Requests of a client within the window.' }),
        timeWindowMs: Type.Integer({
          unit: 'ms',
          minimum: 1,
          maximum: 2_147_483_647,
          description: 'The window.',
        }),
      },
      {
        additionalProperties: false,
        description: 'Requests of an address: `max` in `timeWindowMs`; then 429. (@fastify/rate-limit)',
      },
    ),
  ),
  compress: Type.Optional(
    Type.Object(
      {
        thresholdBytes: Type.Optional(
          Type.Integer({
            unit: 'bytes',
            minimum: 0,
            description: 'Least size that is compressed. Default: 1024.',
          }),
        ),
        encodings: Type.Optional(
          Type.Array(Type.Enum(['br', 'gzip', 'deflate']), {
            minItems: 1,
            description: 'The best first. Default: all.',
          }),
        ),
      },
      {
        additionalProperties: false,
        description: 'Compress answers: `thresholdBytes`, `encodings`. (@fastify/compress)',
      },
    ),
  ),
  etag: withDefault(
    Type.Boolean({
      default: false,
      description: 'Give answers an `ETag`, and 304 to who has the same already. (@fastify/etag)',
    }),
  ),
  static: Type.Optional(
    Type.Record(Type.String({ pattern: '^/' }), Type.String({ minLength: 1, holds: 'path' }), {
      additionalProperties: false,
      description:
        'Folders whose files are served too, by the path that their URLs begin with. (@fastify/static)',
    }),
  ),
  trustProxy: Type.Optional(
    words('Proxies whose `X-Forwarded-For` is believed: addresses, networks, `loopback`.'),
  ),
  admin: Type.Optional(
    Type.String({
      pattern: ADMIN_ADDRESS,
      hint: 'must be HOST:PORT, PORT (at most 65535), or the path of a Unix socket with a slash in it',
      holds: 'address',
      description: 'Address of the admin listener: `HOST:PORT`, `PORT` or the path of a Unix socket.',
    }),
  ),
  adminToken: Type.Optional(key('Token that the admin listener asks for. Default: one is made and printed.')),
  adminHosts: Type.Optional(
    words('Names by which the admin listener may be reached, besides `localhost` and IP addresses.'),
  ),
  logLevel: withDefault(
    Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      default: 'info',
      description: 'Least level that is logged: trace, debug, info, warn, error, fatal or silent.',
    }),
  ),
  state: Type.Optional(
    Type.String({
      minLength: 1,
      holds: 'path',
      description: 'Folder that keeps what the admin API changes. Default: it ends with the process.',
    }),
  ),
  uploadLimit: bytes('Largest plug-in that the admin API takes, in bytes.', 67_108_864),
  watch: withDefault(
    Type.Boolean({
      default: false,
      description: 'Serve what changes in plug-ins, manifests, folders and the config file.',
    }),
  ),
  accessLog: withDefault(Type.Boolean({ default: false, description: 'Log one line per request.' })),
  accessLogFormat: withDefault(
    Type.Enum(['json', 'common', 'combined'], {
      default: 'json',
      description: 'Lines of the log, or text on standard output as web servers write it.',
    }),
  ),
  accessLogLevel: withDefault(
    Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      default: 'info',
      description: 'Level of these lines: they are written if logLevel is not above it.',
    }),
  ),
  accessLogHeaders: withDefault(
    Type.Boolean({ default: false, description: "Whether they have the requests' headers. (json)" }),
  ),
  redactHeaders: withDefault(
    Type.Array(Type.String({ minLength: 1 }), {
      default: ['authorization', 'cookie', 'proxy-authorization', 'x-api-key'],
      description: 'Headers whose values no line has.',
    }),
  ),
  otel: withDefault(
    Type.Boolean({
      default: false,
      description: 'Make OpenTelemetry spans of requests and calls; the command sends them as `OTEL_*` say.',
    }),
  ),
  drainMs: ms('After SIGTERM: how long answers say `Connection: close` before the listener closes.', 300, 0),
  graceMs: ms('After that: how long requests in flight may take to end.', 10_000, 0),
  headersTimeoutMs: ms("How long a request's headers may take to arrive; then 408.", 10_000),
  requestTimeoutMs: ms('How long a whole request may take to arrive; then 408.', 30_000),
  keepAliveTimeoutMs: ms('How long an idle connection is kept.', 72_000),
  unreadTimeoutMs: ms('How long a client may leave its answer unread; then it is cut off.', 30_000),
  maxConnections: countOption('Connections at a time; more are closed at once.', 10_000),
})

/** Options after the check: what has a default is there. */
type Checked<Schema extends TObject> = Static<Schema> & {
  [Key in keyof Schema['properties'] as Schema['properties'][Key] extends WithDefault
    ? Key
    : never]-?: Schema['properties'][Key] extends TSchema ? Static<Schema['properties'][Key]> : never
}

export type RouteData = Static<typeof routeSchema>
export type CheckedRouteData = Checked<typeof routeSchema>
export type WasmServeData = Static<typeof wasmServeSchema>
export type CheckedWasmServeData = Checked<typeof wasmServeSchema>
export type ServerData = Static<typeof serverSchema>
export type CheckedServerData = Checked<typeof serverSchema>
export type LoadData = Static<typeof loadSchema>
export type CheckedLoadData = Checked<typeof loadSchema>
