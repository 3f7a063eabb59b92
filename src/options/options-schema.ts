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
 * The only description of the options: types, defaults, checks, the published JSON schema, the flags and the tables
 * of docs/reference/options.md come from here. The build turns this module into plain data and plain types, so TypeBox is needed
 * neither to serve nor to use the types of the package.
 */

declare const defaulted: unique symbol

/** Marks an optional option with a `default` in its schema. */
interface WithDefault {
  readonly [defaulted]: true
}

const withDefault = <Schema extends TSchema>(schema: Schema) =>
  Type.Optional(schema) as TOptional<Schema> & WithDefault

const only = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false })

/** A path or URL in JSON; `pluginSource` is a keyword of our options check, for values that only a library user can pass. */
const pluginSource = (description: string): TUnsafe<string | object> =>
  Type.Unsafe<string | object>({ pluginSource: true, description })

/*
 * `holds` marks options with paths: `path`, `source` (path or URL) or `folders` (the keys are paths), `store` (`lmdb:`
 * and a path), `address` (or a path with a slash in it), `folder` (or a URL; `ro:` may stand before it). In a config file
 * they are relative to the file.
 *
 * `unit` is the unit of a number: `bytes`, `pages` of 64 KiB, `ms`. It decides how its text is parsed.
 */

/** A path in JSON; `hostFunctions` is a keyword of our options check, like `pluginSource`. */
const hostFunctionsPath = (description: string): TUnsafe<string | object> =>
  Type.Unsafe<string | object>({ hostFunctions: true, description })

/** Not in JSON: `callHook` is a keyword of our options check, for functions of a library user. */
const callHook = (description: string): TUnsafe<object> =>
  Type.Unsafe<object>({ callHook: true, description })

/** Hooks of the Fastify plugin for all routes, and of a route; `CallHooks` has their types. */
const callHooks = {
  onCall: Type.Optional(
    callHook('Function that runs before the guest. It may replace the input or refuse the call.'),
  ),
  onResult: Type.Optional(
    callHook('Function that gets the output of the guest once the answer is being sent.'),
  ),
  onError: Type.Optional(
    callHook('Function that gets the error of a failed call once the answer is being sent.'),
  ),
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

/** Hosts; `allowedHost` is a keyword of our options check, which explains invalid ones. */
const hosts = (description: string) =>
  Type.Optional(Type.Array(Type.Unsafe<string>({ type: 'string', allowedHost: true }), { description }))

const words = (description: string) => Type.Array(Type.String({ minLength: 1 }), { minItems: 1, description })

const pemFile = (description: string) => Type.String({ minLength: 1, holds: 'path', description })

/** Credentials of clients; `secret` marks values that are never shown. */
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

/** A number of bytes; as text also a size such as `64KiB`. */
const bytes = (description: string, value: number, minimum = 1) =>
  withDefault(Type.Integer({ minimum, default: value, unit: 'bytes', description }))

const countOption = (description: string, value: number) =>
  withDefault(Type.Integer({ minimum: 1, default: value, description }))

/** A JSON object that the server passes on, such as a JSON Schema. */
const jsonObject = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({ type: 'object', description })

/** How a route is listed as a tool of the MCP endpoint. */
const toolSettings = only({
  enabled: Type.Optional(
    Type.Boolean({
      description: 'Serve the route as a tool. Default: true, with the contracts `raw` and `hyper-mcp`.',
    }),
  ),
  name: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,128}$',
      hint: 'must be 1 to 128 letters, digits, _, - or .',
      description: "Name of the tool. Default: the route's URL, with _ for each slash.",
    }),
  ),
  prefix: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,64}$',
      hint: 'must be 1 to 64 letters, digits, _, - or .',
      description: 'Text before the names of the tools of a plug-in, such as `docs-`. (hyper-mcp)',
    }),
  ),
  title: Type.Optional(Type.String({ minLength: 1, description: 'Title of the tool, for people.' })),
  description: Type.Optional(
    Type.String({ minLength: 1, description: "Description of the tool, for models. Default: the route's." }),
  ),
  inputSchema: Type.Optional(
    jsonObject('JSON Schema of the arguments. Default: that of the XTP schema, else one string.'),
  ),
  input: Type.Optional(
    Type.Enum(['json', 'text'], {
      description:
        'What the guest gets: the arguments as JSON, or the bytes of their only text. Default: `text` if the only parameter is a string.',
    }),
  ),
  outputSchema: Type.Optional(
    jsonObject('JSON Schema of the result. Default: that of the XTP schema, else none.'),
  ),
  annotations: Type.Optional(
    Type.Object(
      {
        title: Type.Optional(Type.String({ description: 'Title for clients of older revisions.' })),
        readOnlyHint: Type.Optional(Type.Boolean({ description: 'The tool changes nothing.' })),
        destructiveHint: Type.Optional(Type.Boolean({ description: 'The tool may delete or overwrite.' })),
        idempotentHint: Type.Optional(
          Type.Boolean({ description: 'A repeated call has no further effect.' }),
        ),
        openWorldHint: Type.Optional(Type.Boolean({ description: 'The tool reaches other systems.' })),
      },
      { additionalProperties: false, description: 'Hints for clients about the effects of the tool.' },
    ),
  ),
})

export const routeSchema = only({
  method: Type.Optional(
    oneOrSeveral(
      ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', '*'],
      'HTTP methods of the route, `*` for all. Default: POST; all with `simplism`; GET with `websocket`.',
    ),
  ),
  url: withDefault(
    Type.String({
      pattern: '^/',
      default: '/',
      description: "URL of the route in Fastify's syntax: `/`, `/users/:id`, `/files/*`.",
    }),
  ),
  host: Type.Optional(
    Type.String({
      pattern: '^(?:[A-Za-z0-9_.-]+|\\[[A-Fa-f0-9:.]+\\])$',
      description: 'Host name of the route, without the port. Default: any.',
    }),
  ),
  plugin: pluginSource('Path or URL of the plug-in: a `.wasm` file or an Extism manifest.'),
  function: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Exported function to call. Default: the only one that can be called.',
    }),
  ),
  contract: withDefault(
    nameOrContract(['raw', 'http', 'simplism', 'hyper-mcp', 'websocket'], {
      default: 'raw',
      description:
        'Format of requests and answers between server and guest: raw, http or simplism; websocket; hyper-mcp for tools only.',
    }),
  ),
  config: texts('Configuration of the guest, which it reads with `config_get`.'),
  functions: Type.Optional(hostFunctionsPath('Path of a JavaScript module that exports host functions.')),
  links: texts('Modules that the plug-in imports: name to path or URL.', Type.String({ holds: 'source' })),
  load: withDefault(
    Type.Enum(['auto', 'eager', 'lazy'], {
      default: 'auto',
      description:
        'When a plug-in is compiled: at the start (`eager`) or on its first call (`lazy`). `auto`: lazy with more than 256.',
    }),
  ),
  sleep: withDefault(
    Type.Boolean({
      default: false,
      description: 'Close instances that have memory of earlier calls, too, when they are idle. (lazy)',
    }),
  ),
  wasi: withDefault(Type.Boolean({ default: true, description: 'Provide WASI preview 1 to the guest.' })),
  bodyLimit: bytes(
    'Maximum size of a request body, in bytes. Larger bodies get 413. Streams: 0 is no limit.',
    1_048_576,
    0,
  ),
  outputLimit: bytes(
    "Maximum size of a guest's output, in bytes. Larger output gets 502. Streams: 0 is no limit.",
    8_388_608,
    0,
  ),
  contentType: Type.Optional(
    Type.String({
      pattern: "^[\\w!#$%&'*+.^`|~-]+/[\\w!#$%&'*+.^`|~-]+ *(?:;[ -~]*)?$",
      hint: 'must be a media type, such as text/html',
      description: 'Content type of the answers. Default: text if the output is valid UTF-8, else bytes.',
    }),
  ),
  headers: texts('Headers of each answer, failures included. Headers that the guest sets win.'),
  errorStatus: Type.Optional(
    Type.Integer({
      minimum: 400,
      maximum: 599,
      description: 'Status when the guest returns an error. Default: 409; 500 with `simplism`.',
    }),
  ),
  description: Type.Optional(
    Type.String({ description: 'Description of the route, for the OpenAPI document.' }),
  ),
  runtime: withDefault(
    Type.Enum(['kernel', 'sdk'], {
      default: 'kernel',
      description: "Runtime of the guests: wasm-serve's kernel, or Extism's SDK as a reference.",
    }),
  ),
  isolation: withDefault(
    Type.Enum(['reuse', 'fresh'], {
      default: 'reuse',
      description: '`reuse`: an instance serves many calls. `fresh`: each call gets a new state.',
    }),
  ),
  recycle: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'Number of calls after which an instance is replaced. Default: never.',
    }),
  ),
  recycleMemory: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      description: 'Memory above which an instance is replaced, in bytes. Default: 3/4 of memoryMax.',
    }),
  ),
  env: texts('Environment variables of the guest (WASI).'),
  allowedPaths: withDefault(
    Type.Record(Type.String(), Type.String(), {
      default: {},
      holds: 'folders',
      description:
        'Folders of the guest (WASI): host path to guest path. The prefix `ro:` makes one read-only.',
    }),
  ),
  allowedHosts: hosts("Hosts to which the guest may send HTTP requests. Default: the manifest's, else none."),
  memoryMax: Type.Optional(
    Type.Integer({
      unit: 'pages',
      minimum: 1,
      maximum: 65_536,
      description: "Maximum memory of the guest, in pages of 64 KiB. Default: the manifest's, else 2048.",
    }),
  ),
  blockLimit: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      maximum: 2_147_483_647,
      description:
        "Maximum bytes that guest and host exchange per call. Default: the manifest's max_pages, up to 67108864. (kernel)",
    }),
  ),
  varMax: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 0,
      description:
        "Maximum bytes of the values of an instance's variables. 0: no variables. Default: the manifest's, else 1048576.",
    }),
  ),
  httpResponseMax: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 0,
      description:
        "Maximum bytes of the answer to a guest's HTTP request. 0: no limit if it is streamed. Default: the manifest's, else 52428800.",
    }),
  ),
  httpErrors: withDefault(
    Type.Enum(['trap', 'status'], {
      default: 'trap',
      description:
        'Effect of a failed HTTP request of a guest: the call ends (`trap`), or status 0 (`status`).',
    }),
  ),
  engine: Type.Optional(
    Type.Enum(['inline', 'workers', 'subprocess'], {
      description:
        'Where guests run: on the event loop, in threads, or in processes. Default: inline, or workers if something needs threads.',
    }),
  ),
  process: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Name of a group of processes. Routes with the same name share them. (subprocess)',
    }),
  ),
  workers: Type.Optional(
    threadCount('Number of threads or processes; `auto`: one per core. Default: 1 if needed.'),
  ),
  spareWorkers: withDefault(
    Type.Integer({
      minimum: 0,
      maximum: 256,
      default: 1,
      description: 'Spare threads or processes, which replace one that was ended.',
    }),
  ),
  timeoutMs: Type.Optional(
    Type.Integer({
      unit: 'ms',
      minimum: 1,
      maximum: 2_147_483_647,
      description:
        "Deadline of a call in a thread or process, in ms; then 504. Default: the manifest's, else 1000.",
    }),
  ),
  idempotent: withDefault(
    Type.Boolean({
      default: false,
      description: 'Run a call a second time if its thread or process was lost.',
    }),
  ),
  vars: withDefault(
    Type.Enum(['own', 'shared'], {
      default: 'own',
      description: '`own`: each instance has its variables. `shared`: all instances of a plug-in share them.',
    }),
  ),
  startTimeoutMs: ms('Time limit for the start of a thread or process with its instance, in ms.', 5_000),
  maxQueue: countOption('Maximum number of calls that wait for an instance. Further calls get 503.', 1_000),
  maxQueueBytes: bytes(
    'Maximum bytes of input that wait. Further calls get 503. (workers, subprocess)',
    67_108_864,
  ),
  maxWaitMs: ms(
    'Maximum time that a call waits for an instance, in ms; then 503. (workers, subprocess)',
    5_000,
  ),
  streamBuffer: withDefault(
    Type.Integer({
      unit: 'bytes',
      minimum: 16_384,
      maximum: 67_108_864,
      default: 262_144,
      description: 'Bytes of a stream that the server keeps in each direction; then the sender waits.',
    }),
  ),
  streamTimeoutMs: ms('Maximum time of an exchange whose guest streams, in ms; then 504.', 3_600_000),
  streamIdleMs: ms(
    'Maximum time in which a client sends nothing while the guest reads, in ms; then 408.',
    30_000,
  ),
  sseHeartbeatMs: ms('Interval of comments in an idle stream of events (SSE), in ms. 0: none.', 0, 0),
  websocketPer: Type.Optional(
    Type.Enum(['message', 'connection'], {
      description:
        'Whether a call answers a message or serves a connection. Default: connection if the plug-in imports ws_receive. (websocket)',
    }),
  ),
  websocketMax: countOption(
    'Maximum number of open connections of the route. Further ones get 503. (websocket)',
    1_000,
  ),
  websocketPingMs: ms(
    'Interval of pings, in ms. A client that has not answered the last one is disconnected. 0: none. (websocket)',
    30_000,
    0,
  ),
  websocketIdleMs: ms(
    'Time without a message after which a connection is closed, in ms. 0: no limit. (websocket)',
    0,
    0,
  ),
  websocketOrigins: withDefault(
    Type.Array(Type.String({ minLength: 1 }), {
      default: [],
      description:
        'Origins of web pages that may connect, `*` for all. Default: only pages of the same host. (websocket)',
    }),
  ),
  websocketProtocols: withDefault(
    Type.Array(
      Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", hint: 'must be a token, such as chat.v1' }),
      {
        default: [],
        description: 'Subprotocols; the first one that the client offers is chosen. (websocket)',
      },
    ),
  ),
  kv: Type.Optional(
    Type.Object(
      {
        access: Type.Optional(
          Type.Enum(['none', 'read', 'readwrite'], {
            description: 'Access of the guest to the store. Default: readwrite.',
          }),
        ),
        namespace: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 255,
            description: "Namespace of the guest's keys in the store. Default: the plug-in's name.",
          }),
        ),
      },
      { additionalProperties: false, description: "The guest's access to the store: `access`, `namespace`." },
    ),
  ),
  logRate: countOption(
    'Maximum lines that guests log per second and thread. Further lines are dropped.',
    1_000,
  ),
  smoke: Type.Optional(
    Type.Object(
      {
        method: Type.Optional(
          Type.String({ minLength: 1, description: "Method of the request. Default: the route's first." }),
        ),
        url: Type.Optional(
          Type.String({ pattern: '^/', description: "URL of the request. Default: the route's." }),
        ),
        headers: Type.Optional(
          Type.Record(Type.String(), Type.String(), { description: 'Headers of the request.' }),
        ),
        body: Type.Optional(Type.String({ description: 'Body of the request. Default: none.' })),
        status: Type.Optional(
          Type.Integer({
            minimum: 200,
            maximum: 599,
            description: 'Expected status of the answer. Default: 200.',
          }),
        ),
        answer: Type.Optional(Type.String({ description: 'Expected body of the answer. Default: any.' })),
      },
      {
        additionalProperties: false,
        description: 'Test request that the route must answer before it goes live.',
      },
    ),
  ),
  tool: Type.Optional({
    ...toolSettings,
    description: 'The route as a tool of the MCP endpoint: `name`, `description`, `inputSchema`...',
  }),
  timing: withDefault(
    Type.Boolean({
      default: false,
      description: 'Add the header `Server-Timing`: how long the call waited and ran.',
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
      description:
        'Folder of the caches: downloads, and modules that were checked. Default: ~/.cache/wasm-serve.',
    }),
  ),
  downloadLimit: bytes('Maximum size of a download, in bytes.', 268_435_456),
  downloadTimeoutMs: ms('Time limit of a download, in ms.', 30_000),
  pullPolicy: Type.Optional(
    Type.Enum(['IfNotPresent', 'Always', 'Never'], {
      description:
        'When plug-ins are pulled from registries. Default: Always for the tag `latest`, else IfNotPresent.',
    }),
  ),
  registryPollMs: Type.Optional(
    Type.Integer({
      minimum: 1_000,
      maximum: 2_147_483_647,
      unit: 'ms',
      description:
        'Interval at which tags of registries are followed, in ms. Default: 60000 with `watch`, else never.',
    }),
  ),
  registries: withDefault(
    Type.Record(
      Type.String({ pattern: '^[a-z\\d.:\\[\\]-]+$' }),
      Type.Object(
        {
          insecure: Type.Optional(
            Type.Boolean({
              description: 'Use http. Without it, only a registry on this machine may use http.',
            }),
          ),
          ca: Type.Optional(
            pemFile('Certificate authority (PEM) of the registry. Default: those of Node.js. (undici)'),
          ),
        },
        { additionalProperties: false },
      ),
      {
        additionalProperties: false,
        default: {},
        description: 'Registries by `HOST` or `HOST:PORT`: `insecure`, `ca`.',
      },
    ),
  ),
  trust: withDefault(
    Type.Record(
      Type.String({ minLength: 1 }),
      Type.Object(
        {
          keys: Type.Optional(
            Type.Array(pemFile('Public key (PEM) of a signer.'), {
              minItems: 1,
              description: 'Files with public keys (PEM), one of which must have signed.',
            }),
          ),
          issuer: Type.Optional(
            Type.String({ minLength: 1, description: 'Issuer of the identity of a keyless signature.' }),
          ),
          identity: Type.Optional(
            Type.String({
              minLength: 1,
              description: 'Identity of a keyless signature; it may end in `*`. (@sigstore/verify)',
            }),
          ),
          trustedRoot: Type.Optional(
            Type.String({
              minLength: 1,
              holds: 'path',
              description: 'Trusted root of Sigstore (JSON), for keyless signatures.',
            }),
          ),
          attestations: Type.Optional(
            words('Predicate types of attestations that a signer must have made too, such as an SBOM.'),
          ),
        },
        { additionalProperties: false },
      ),
      {
        default: {},
        description:
          'Who may sign plug-ins, by prefix of repository or URL, `*`: all others. The longest prefix counts.',
      },
    ),
  ),
  requireSignatures: withDefault(
    Type.Boolean({
      default: false,
      description:
        'Refuse plug-ins that have neither a trusted signature nor, for files and URLs, a pinned digest.',
    }),
  ),
  maxFunctions: countOption(
    'Maximum number of functions of a plug-in that are served when none is named.',
    100,
  ),
  moduleLimits: withDefault(
    Type.Unsafe<ModuleLimits>({
      type: 'object',
      properties: Object.fromEntries(LIMIT_NAMES.map((name) => [name, { type: 'integer', minimum: 0 }])),
      additionalProperties: false,
      default: {},
      description: 'Overrides of the limits on what the compiler accepts: name to number.',
    }),
  ),
  allowGc: withDefault(
    Type.Boolean({
      default: false,
      description: 'Load plug-ins with garbage-collected types, which no memory limit covers.',
    }),
  ),
})

/** A host and port, a port of the loopback interface, or a path with a slash in it. */
const TCP_PORT = '(?:[0-5]?\\d{1,4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])'
const OPERATOR_ADDRESS = `^(?:(?:\\[[A-Fa-f0-9:.]+\\]|[A-Za-z0-9_.-]+):)?${TCP_PORT}$|/`

const operatorAddress = (description: string) =>
  Type.String({
    pattern: OPERATOR_ADDRESS,
    hint: 'must be HOST:PORT, PORT (at most 65535), or the path of a Unix socket with a slash in it',
    holds: 'address',
    description,
  })

const stallMs = (value: number) =>
  ms(
    'Maximum time that a guest may block the event loop, in ms; then the process is killed. 0: off.',
    value,
    0,
  )

/** The MCP endpoint. It may be given without `enabled`, which exists for the flag. */
const fleetSettings = only({
  url: Type.String({
    pattern: '^rediss?(?:\\+sentinel)?://.',
    hint: 'must be redis://HOST, rediss://HOST or redis+sentinel://HOST:PORT/PRIMARY',
    description:
      'Redis or Valkey that has the desired state of several nodes: `redis://HOST`, `rediss://HOST`, or `redis+sentinel://HOST:PORT,.../PRIMARY`.',
  }),
  name: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
      hint: 'must have at most 64 letters, digits, dots, dashes and underscores',
      description: 'Name of the fleet. Several may use the same server. Default: default.',
    }),
  ),
  node: Type.Optional(
    Type.String({
      pattern: '^[^\\s\\x00-\\x1f\\x7f]{1,128}$',
      hint: 'must have at most 128 characters, without spaces',
      description: 'Name of this node. Default: host name and port.',
    }),
  ),
  keyPrefix: Type.Optional(
    Type.String({
      pattern: '^[^{}\\s]{0,100}$',
      hint: 'must have at most 100 characters, without spaces and braces',
      description: 'Beginning of all keys in the server. Default: `wasm-serve:`.',
    }),
  ),
  pollMs: Type.Optional(
    Type.Integer({
      minimum: 50,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'Interval of asking for the current revision, in ms. Default: 2000.',
    }),
  ),
  canaryNodes: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'Number of nodes that serve a new revision first. Default: all serve it at once.',
    }),
  ),
  canaryPercent: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 99,
      description: 'The same as a share of the nodes, in percent, rounded up.',
    }),
  ),
  canaryMs: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 604_800_000,
      unit: 'ms',
      description: 'How long only the canary nodes serve a new revision, in ms. Default: 60000.',
    }),
  ),
  maxRefusals: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: 'Number of nodes that may refuse a revision. If more do, its rollout ends. Default: 0.',
    }),
  ),
  onRefusals: Type.Optional(
    Type.Enum(['stop', 'rollback'], {
      description: 'If too many nodes refuse a revision: stop, or go back to the one before. Default: stop.',
    }),
  ),
  history: Type.Optional(
    Type.Integer({
      minimum: 5,
      maximum: 1_000,
      description: 'Number of revisions that are kept. Default: 20.',
    }),
  ),
  allow: Type.Optional(
    Type.Object(
      {
        functions: Type.Optional(
          Type.Array(Type.String({ minLength: 1, holds: 'path' }), {
            description: 'Modules of host functions.',
          }),
        ),
        paths: Type.Optional(
          Type.Array(Type.String({ minLength: 1, holds: 'folder' }), {
            description: 'Folders, other files, and sources of links. The prefix `ro:`: for reading only.',
          }),
        ),
        env: Type.Optional(
          Type.Array(
            Type.String({
              pattern: '^[A-Za-z_]\\w*$',
              hint: 'must be the name of a variable',
            }),
            { description: 'Variables of the environment, other than `WASM_SERVE_*` and `OTEL_*`.' },
          ),
        ),
        processes: Type.Optional(
          Type.Array(Type.String({ minLength: 1 }), { description: 'Groups of processes (`process`).' }),
        ),
      },
      {
        additionalProperties: false,
        description:
          'What the shared configuration may use of this node, by name: `functions`, `paths`, `env`, `processes`. Default: nothing.',
      },
    ),
  ),
  moduleMax: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 0,
      description:
        'Maximum bytes of a module that is stored in the server. Larger ones must come from a registry. Default: 33554432.',
    }),
  ),
})

const mcpSettings = only({
  enabled: Type.Optional(
    Type.Boolean({ description: 'Serve the routes as tools for agents (MCP). Default: true with `mcp`.' }),
  ),
  url: Type.Optional(
    Type.String({ pattern: '^/[^:*?#\\s]*$', description: 'URL of the MCP endpoint. Default: /mcp.' }),
  ),
  toolsOnly: Type.Optional(
    Type.Boolean({ description: 'Serve tools only at the MCP endpoint, not at their URLs. Default: false.' }),
  ),
  hosts: Type.Optional(words('Host names of the MCP endpoint, besides `localhost` and IP addresses.')),
  origins: Type.Optional(
    words('Origins of web pages that may use the MCP endpoint. Default: those of this machine.'),
  ),
  name: Type.Optional(
    Type.String({ minLength: 1, description: 'Name of the server, for clients. Default: wasm-serve.' }),
  ),
  title: Type.Optional(Type.String({ minLength: 1, description: 'Title of the server, for people.' })),
  version: Type.Optional(
    Type.String({ minLength: 1, description: 'Version of the server. Default: that of wasm-serve.' }),
  ),
  instructions: Type.Optional(
    Type.String({ minLength: 1, description: 'Advice for models about the use of the tools.' }),
  ),
  access: Type.Optional(
    Type.Array(
      only({
        key: Type.Optional(key('An API key.')),
        scope: Type.Optional(
          Type.String({
            pattern: '^[!#-\\[\\]-~]+$',
            hint: 'must be a scope of OAuth, without spaces',
            description: 'A scope of the token. Without key and scope, the entry is for every client.',
          }),
        ),
        tools: words('Names of tools. A `*` stands for any characters.'),
      }),
      { minItems: 1, description: 'Tools that clients may use, by API key or scope. Default: all tools.' },
    ),
  ),
  resource: Type.Optional(
    Type.String({
      pattern: '^https?://[^#?"\\s]+$',
      hint: 'must be an http or https URL without query and fragment',
      description: 'URL of the MCP endpoint, as clients know it. (RFC 9728)',
    }),
  ),
  authorizationServers: Type.Optional(
    words('URLs of the issuers of tokens, which clients learn from the metadata. Needs `jwt`. (RFC 9728)'),
  ),
  stateSecret: Type.Optional(
    key(
      'Seals what clients send back with their answers to questions. The same on all nodes. Default: a new one.',
    ),
  ),
  audit: Type.Optional(
    Type.Enum(['off', 'calls', 'arguments'], {
      description:
        'Lines of the log for each call, refused ones too; also with its arguments. Default: calls.',
    }),
  ),
  redactArguments: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      description:
        'Arguments whose values are not logged. Default: password, secret, token, apiKey, authorization.',
    }),
  ),
  rateLimit: Type.Optional(
    Type.Object(
      {
        max: Type.Integer({ minimum: 1, description: 'Maximum number of messages per client and window.' }),
        timeWindowMs: Type.Integer({
          unit: 'ms',
          minimum: 1,
          maximum: 2_147_483_647,
          description: 'Length of the window, in ms.',
        }),
      },
      {
        additionalProperties: false,
        description:
          'Rate limit per valid API key, subject of a token, or address. Further messages get 429.',
      },
    ),
  ),
  pageSize: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000, description: 'Tools per page of a list. Default: 100.' }),
  ),
  ttlMs: Type.Optional(
    Type.Integer({
      unit: 'ms',
      minimum: 0,
      maximum: 2_147_483_647,
      description: 'Time for which clients may cache a list, in ms. Default: 60000.',
    }),
  ),
  bodyLimit: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      description: 'Maximum size of a message, in bytes. Default: 1048576.',
    }),
  ),
})

/** Options of the Fastify plugin. */
export const wasmServeSchema = only({
  routes: Type.Array(routeSchema, {
    minItems: 1,
    description: 'The routes. Each has its own instances of its plug-in.',
  }),
  mcp: Type.Optional({
    ...mcpSettings,
    description: 'Serve the routes as tools for agents: `url`, `toolsOnly`, `hosts`... (MCP)',
  }),
  trial: withDefault(
    Type.Boolean({
      default: false,
      description:
        'Start each plug-in in a temporary thread first, to protect a process that already serves.',
    }),
  ),
  stallMs: stallMs(0), // off by default: the process belongs to the user
  idleMs: ms(
    'Time without calls after which instances of lazy plug-ins are closed, in ms; 0: never. See `sleep`.',
    300_000,
    0,
  ),
  // An instance on the event loop has 19 to 27 GiB of address space, of 128 TiB: V8 reserves it for each memory.
  maxInstances: withDefault(
    Type.Integer({
      minimum: 1,
      default: 4_000,
      description:
        'Maximum number of instances of lazy plug-ins. The one unused longest is closed if `sleep` allows it, else 503.',
    }),
  ),
  store: withDefault(
    Type.String({
      pattern: '^(?:memory:$|lmdb:.|rediss?://.)',
      default: 'memory:',
      description: 'Store for the state of guests: `memory:`, `lmdb:FOLDER` or `redis://HOST`.',
      hint: 'must be memory:, lmdb:FOLDER, redis://HOST or rediss://HOST',
      holds: 'store',
    }),
  ),
  storeMax: withDefault(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      default: 67_108_864,
      description: 'Maximum bytes in the store. (`memory:`)',
    }),
  ),
  storeTimeoutMs: ms('Time limit of an operation of the store, in ms. (`redis:`)', 500),
  subprocessUser: withDefault(
    Type.String({
      pattern: '^\\d+(?::\\d+)?$',
      default: '65534:65534',
      hint: 'must be numbers, UID or UID:GID',
      description: 'UID and GID of the processes if root starts them. (subprocess)',
    }),
  ),
  subprocessCgroup: Type.Optional(
    Type.String({
      minLength: 1,
      holds: 'path',
      description: 'Folder of the cgroup that the processes join. (subprocess)',
    }),
  ),
  ...callHooks,
})

/** Options of the server: those of the Fastify plugin, and those that need a separate process. */
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
        'Share the port with other processes that set this option, for upgrades. (Linux, Node.js 22.12)',
    }),
  ),
  tls: Type.Optional(
    Type.Object(
      {
        cert: pemFile('Certificate file for HTTPS (PEM), with the intermediate certificates.'),
        key: pemFile('Private key file of the certificate (PEM).'),
        ca: Type.Optional(
          pemFile('Certificate authority (PEM) that must have signed the certificates of clients.'),
        ),
        minVersion: Type.Optional(
          Type.Enum(['TLSv1.2', 'TLSv1.3'], { description: 'Minimum TLS version. Default: TLSv1.2.' }),
        ),
      },
      { additionalProperties: false, description: 'Serve HTTPS: `cert`, `key`, `ca`, `minVersion`.' },
    ),
  ),
  http2: withDefault(
    Type.Boolean({
      default: false,
      description: 'Offer HTTP/2 besides HTTP/1.1. Needs `tls`.',
    }),
  ),
  apiKeys: Type.Optional(
    keys('API keys. A request must carry one: `Authorization: Bearer KEY` or `x-api-key`. Default: none.'),
  ),
  jwt: Type.Optional(
    Type.Object(
      {
        secret: Type.Optional(
          Type.String({
            pattern: '^[^]{32,}$',
            hint: 'must be 32 characters or more',
            secret: true,
            description: 'Secret that signs the tokens (HS256, HS384, HS512).',
          }),
        ),
        publicKey: Type.Optional(
          pemFile('File with the public key or certificate that verifies tokens (PEM).'),
        ),
        jwks: Type.Optional(
          Type.String({
            minLength: 1,
            holds: 'path',
            description: 'File with the JSON Web Key Set that verifies tokens.',
          }),
        ),
        jwksUrl: Type.Optional(
          Type.String({
            minLength: 1,
            description: "URL (https) of the issuer's JSON Web Key Set, which is fetched again regularly.",
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
              description: 'Allowed signature algorithms. Default: all that the keys support.',
            },
          ),
        ),
        audience: Type.Optional(words("Allowed values of a token's `aud`. Default: any.")),
        issuer: Type.Optional(words("Allowed values of a token's `iss`. Default: any.")),
        allowNoExpiry: Type.Optional(
          Type.Boolean({ description: 'Accept tokens without `exp`, which never expire.' }),
        ),
      },
      {
        additionalProperties: false,
        description:
          'Require a JSON Web Token: `secret`, `publicKey`, `jwks` or `jwksUrl`, `audience`, `issuer`... (jose)',
      },
    ),
  ),
  cors: Type.Optional(
    Type.Object(
      {
        origin: words('Allowed origins, such as `https://a.example`; `*`: all.'),
        methods: Type.Optional(words('Allowed methods. Default: GET, HEAD and POST.')),
        allowedHeaders: Type.Optional(
          words('Allowed request headers. Default: those that the preflight request names.'),
        ),
        exposedHeaders: Type.Optional(words('Answer headers that pages may read.')),
        credentials: Type.Optional(
          Type.Boolean({ description: 'Allow cookies. Then each origin must be named.' }),
        ),
        maxAge: Type.Optional(
          Type.Integer({
            minimum: 0,
            description: 'Seconds for which browsers may cache a preflight answer.',
          }),
        ),
      },
      {
        additionalProperties: false,
        description: 'CORS: `origin`, `methods`, `credentials`... (@fastify/cors)',
      },
    ),
  ),
  rateLimit: Type.Optional(
    Type.Object(
      {
        max: Type.Integer({
          minimum: 1,
          description: 'Maximum number of requests per client address and window.',
        }),
        timeWindowMs: Type.Integer({
          unit: 'ms',
          minimum: 1,
          maximum: 2_147_483_647,
          description: 'Length of the window, in ms.',
        }),
      },
      {
        additionalProperties: false,
        description:
          'Rate limit per client address: `max` requests in `timeWindowMs`; then 429. (@fastify/rate-limit)',
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
            description: 'Minimum size of an answer to compress, in bytes. Default: 1024.',
          }),
        ),
        encodings: Type.Optional(
          Type.Array(Type.Enum(['br', 'gzip', 'deflate']), {
            minItems: 1,
            description: 'Content encodings in order of preference. Default: all.',
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
      description: "Add an `ETag`, and answer 304 when the client's copy is current.",
    }),
  ),
  static: Type.Optional(
    Type.Record(Type.String({ pattern: '^/' }), Type.String({ minLength: 1, holds: 'path' }), {
      additionalProperties: false,
      description: 'Folders of static files: URL prefix to folder. (@fastify/send)',
    }),
  ),
  trustProxy: Type.Optional(
    words('Proxies whose `X-Forwarded-For` is trusted: addresses, networks, `loopback`.'),
  ),
  admin: Type.Optional(
    operatorAddress('Address of the admin listener: `HOST:PORT`, `PORT` or the path of a Unix socket.'),
  ),
  adminToken: Type.Optional(key('Token of the admin listener. Default: one is generated and printed.')),
  adminHosts: Type.Optional(words('Host names of the admin listener, besides `localhost` and IP addresses.')),
  probes: Type.Optional(
    operatorAddress(
      'Address of a listener with `/healthz`, `/readyz` and `/metrics` only, without a token: as for `admin`.',
    ),
  ),
  logLevel: withDefault(
    Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      default: 'info',
      description: 'Minimum log level: trace, debug, info, warn, error, fatal or silent.',
    }),
  ),
  state: Type.Optional(
    Type.String({
      minLength: 1,
      holds: 'path',
      description:
        'Folder that stores changes made by the admin API. Default: they are lost with the process.',
    }),
  ),
  uploadLimit: bytes('Maximum size of a plug-in that the admin API accepts, in bytes.', 67_108_864),
  watch: withDefault(
    Type.Boolean({
      default: false,
      description: 'Reload when plug-ins, manifests, folders or the config file change.',
    }),
  ),
  accessLog: withDefault(Type.Boolean({ default: false, description: 'Log one line per request.' })),
  accessLogFormat: withDefault(
    Type.Enum(['json', 'common', 'combined'], {
      default: 'json',
      description:
        'Access log as JSON in the log, or as text in the common or combined log format on standard output.',
    }),
  ),
  accessLogLevel: withDefault(
    Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      default: 'info',
      description: "Level of the access log's lines. They are written if it is not below logLevel.",
    }),
  ),
  accessLogHeaders: withDefault(
    Type.Boolean({ default: false, description: 'Add the request headers to the access log. (json)' }),
  ),
  redactHeaders: withDefault(
    Type.Array(Type.String({ minLength: 1 }), {
      default: ['authorization', 'cookie', 'proxy-authorization', 'x-api-key'],
      description: 'Headers whose values are removed from the access log.',
    }),
  ),
  otel: withDefault(
    Type.Boolean({
      default: false,
      description:
        'Create OpenTelemetry spans for requests and calls. The variables `OTEL_*` configure the export.',
    }),
  ),
  drainMs: ms(
    'After SIGTERM: time with `Connection: close` in answers before the listener closes, in ms.',
    300,
    0,
  ),
  graceMs: ms('After `drainMs`: time for requests in flight to end, in ms.', 10_000, 0),
  headersTimeoutMs: ms('Time limit for the headers of a request, in ms; then 408.', 10_000),
  requestTimeoutMs: ms(
    'Time limit for a whole request, or message of a WebSocket, to arrive, in ms; then 408.',
    30_000,
  ),
  keepAliveTimeoutMs: ms('Time after which an idle connection is closed, in ms.', 72_000),
  unreadTimeoutMs: ms(
    'Time after which a client that does not read its answer is disconnected, in ms.',
    30_000,
  ),
  maxPartialBytes: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      description:
        'Maximum bytes of all bodies and messages that have arrived in part; then the oldest gets 503. Default: 268435456, or 16 of the largest bodyLimit.',
    }),
  ),
  maxConnections: countOption('Maximum number of connections. Further ones are closed at once.', 10_000),
  processes: Type.Optional(
    threadCount(
      'Number of processes that serve, behind one port; `auto`: one per core. Default: this process.',
    ),
  ),
  processMemoryMax: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      description: 'Resident memory above which a serving process is replaced, in bytes. Default: none.',
    }),
  ),
  processSilentMs: Type.Optional(
    Type.Integer({
      unit: 'ms',
      minimum: 3_000, // a process gives a sign of life each second
      maximum: 2_147_483_647,
      description:
        'Time without a sign of life after which a serving process is killed and replaced, in ms. Default: only when a change waits for it, 10 s.',
    }),
  ),
  fleet: Type.Optional({
    ...fleetSettings,
    description: 'Share one desired state with other nodes: `url`, `name`, `canaryNodes` and others.',
  }),
})

/** Options after the check, with defaults filled in. */
type WithDefaults<Schema extends TObject> = Static<Schema> & {
  [Key in keyof Schema['properties'] as Schema['properties'][Key] extends WithDefault
    ? Key
    : never]-?: Schema['properties'][Key] extends TSchema ? Static<Schema['properties'][Key]> : never
}

export type RouteData = Static<typeof routeSchema>
export type CheckedRouteData = WithDefaults<typeof routeSchema>
export type WasmServeData = Static<typeof wasmServeSchema>
export type CheckedWasmServeData = WithDefaults<typeof wasmServeSchema>
export type ServerData = Static<typeof serverSchema>
export type CheckedServerData = WithDefaults<typeof serverSchema>
export type LoadData = Static<typeof loadSchema>
export type CheckedLoadData = WithDefaults<typeof loadSchema>
