import { Type } from 'typebox'
import { edgeOptions } from './edge.ts'
import { fleetSettings } from './fleet.ts'
import { logOptions } from './log.ts'
import { bytes, countOption, key, ms, only, option, threadCount, withDefault } from './option.ts'
import { stallMs, wasmServeSchema } from './wasm-serve.ts'

/** A host and port, a port of the loopback interface, or a path with a slash in it. */
const TCP_PORT = '(?:[0-5]?\\d{1,4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])'
const OPERATOR_ADDRESS = `^(?:(?:\\[[A-Fa-f0-9:.]+\\]|[A-Za-z0-9_.-]+):)?${TCP_PORT}$|/`

const operatorAddress = (description: string) =>
  Type.String({
    pattern: OPERATOR_ADDRESS,
    hint: 'must be HOST:PORT, PORT (at most 65535), or the path of a Unix socket with a slash in it',
    holds: 'address',
    public: true,
    description,
  })

/** Options of the server: those of the Fastify plugin, and those that need a separate process. */
export const serverSchema = only({
  ...wasmServeSchema.properties,
  stallMs: stallMs(10_000),
  host: withDefault(
    Type.String({
      pattern: '^(?:[A-Za-z0-9_.-]+|[A-Fa-f0-9]*:[A-Fa-f0-9:.]+(?:%[A-Za-z0-9_.-]+)?)$',
      hint: 'must be an address or a host name, without port and scheme, such as 0.0.0.0 or ::1',
      default: '127.0.0.1',
      public: true,
      description: 'Address to listen on.',
    }),
  ),
  port: withDefault(
    Type.Integer({
      minimum: 0,
      maximum: 65_535,
      default: 8080,
      description: 'Port to listen on. 0: a free one.',
    }),
  ),
  socket: option(
    { chart: true },
    Type.Optional(
      Type.String({
        minLength: 1,
        holds: 'path',
        public: true,
        description: 'Unix socket to listen on, instead of host and port.',
      }),
    ),
  ),
  reusePort: withDefault(
    Type.Boolean({
      default: false,
      description: 'Share the port with processes that also set this option. (Linux, Node.js 22.12)',
    }),
  ),
  ...edgeOptions,
  admin: option(
    { chart: true },
    Type.Optional(
      operatorAddress('Address of the admin listener: `HOST:PORT`, `PORT` or the path of a Unix socket.'),
    ),
  ),
  adminToken: option(
    { flag: false, variable: true, needs: 'admin', chart: true },
    Type.Optional(key('Token of the admin listener. Default: a random one, which is printed.')),
  ),
  adminHosts: option(
    { flag: false, needs: 'admin' },
    Type.Optional(
      Type.Array(Type.String({ minLength: 1, public: true }), {
        minItems: 1,
        description: 'Host names of the admin listener, besides `localhost` and IP addresses.',
      }),
    ),
  ),
  probes: option(
    { chart: true },
    Type.Optional(
      operatorAddress(
        'Address of a listener with only `/healthz`, `/readyz` and `/metrics`, without a token: as for `admin`.',
      ),
    ),
  ),
  logLevel: option(
    { reach: 'answer', owner: 'fleet', guest: true },
    withDefault(
      Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
        default: 'info',
        description: 'Minimum log level: trace, debug, info, warn, error, fatal or silent.',
      }),
    ),
  ),
  state: Type.Optional(
    Type.String({
      minLength: 1,
      holds: 'path',
      description: 'Folder that stores changes of the admin API. Default: they are lost at exit.',
    }),
  ),
  uploadLimit: option(
    { needs: 'admin' },
    bytes('Maximum size of an uploaded plug-in, in bytes.', 67_108_864),
  ),
  watch: withDefault(
    Type.Boolean({
      default: false,
      description: 'Reload when plug-ins, manifests, folders or the config file change.',
    }),
  ),
  ...logOptions,
  drainMs: ms(
    'After SIGTERM: time with `Connection: close` in responses before the listener closes, in ms.',
    300,
    0,
  ),
  graceMs: ms('After `drainMs`: time for requests in flight to finish, in ms.', 10_000, 0),
  headersTimeoutMs: ms('Time limit for the headers of a request, in ms; then 408.', 10_000),
  requestTimeoutMs: ms('Time limit for a whole request or WebSocket message, in ms; then 408.', 30_000),
  keepAliveTimeoutMs: ms('Time after which an idle connection is closed, in ms.', 72_000),
  unreadTimeoutMs: ms(
    'Time after which a client that does not read its response is disconnected, in ms.',
    30_000,
  ),
  maxPartialBytes: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      description:
        'Maximum bytes of all incomplete bodies and messages; then the oldest gets 503. Default: 268435456, or 16 times the largest bodyLimit.',
    }),
  ),
  maxUnreadBytes: Type.Optional(
    Type.Integer({
      unit: 'bytes',
      minimum: 1,
      description:
        'Maximum bytes of unread responses and waiting requests; then the largest connections are closed. Default: 1073741824.',
    }),
  ),
  maxConnections: countOption('Maximum number of connections. Further ones are closed immediately.', 10_000),
  processes: Type.Optional(
    threadCount('Number of serving processes behind one port; `auto`: one per core. Default: this process.'),
  ),
  processMemoryMax: option(
    { needs: 'processes' },
    Type.Optional(
      Type.Integer({
        unit: 'bytes',
        minimum: 1,
        description:
          'Resident memory above which a serving process is replaced, in bytes. Default: no limit.',
      }),
    ),
  ),
  processSilentMs: option(
    { needs: 'processes' },
    Type.Optional(
      Type.Integer({
        unit: 'ms',
        minimum: 3_000, // a process gives a sign of life each second
        maximum: 2_147_483_647,
        description:
          'Time after which a silent serving process is killed and replaced, in ms. Default: 10000, but only while a change waits for it.',
      }),
    ),
  ),
  fleet: Type.Optional({
    ...fleetSettings,
    description: 'Share one desired state with other nodes: `url`, `name`, `canaryNodes`...',
  }),
})
