import { Type } from 'typebox'
import { mcpSettings } from './mcp.ts'
import { ms, only, option, withDefault } from './option.ts'
import { callHooks, routeSchema } from './route.ts'

export const stallMs = (value: number) =>
  ms(
    'Maximum time that a guest may block the event loop, in ms; then the process is killed. 0: no limit.',
    value,
    0,
  )

/** Options of the Fastify plugin. */
export const wasmServeSchema = only({
  routes: option(
    { flag: false, reach: 'answer' },
    Type.Array(routeSchema, {
      minItems: 1,
      description: 'The routes. Each has its own instances.',
    }),
  ),
  mcp: option(
    { reach: 'answer', owner: 'fleet' },
    Type.Optional({
      ...mcpSettings,
      examples: [{ url: '/mcp' }],
      description: 'Serve routes as tools for agents (MCP): `url`, `toolsOnly`, `hosts`...',
    }),
  ),
  trial: option(
    { flag: false, reach: 'answer', owner: 'fleet' },
    withDefault(
      Type.Boolean({
        default: false,
        description: 'Start plug-ins in a temporary thread first, to protect the serving process.',
      }),
    ),
  ),
  stallMs: stallMs(0), // off by default: the process belongs to the user
  idleMs: ms(
    'Time without calls after which instances of lazy plug-ins are closed, in ms. 0: never. See `sleep`.',
    300_000,
    0,
  ),
  // An instance on the event loop has 19 to 27 GiB of address space, of 128 TiB: V8 reserves it for each memory, at random places, of
  // which none is left when 86 TiB are in use.
  maxInstances: withDefault(
    Type.Integer({
      minimum: 1,
      default: 3_000,
      description:
        'Maximum number of instances of lazy plug-ins. Beyond it, the least recently used one is closed.',
    }),
  ),
  store: option(
    {
      guest: true,
      errors: ['WASM_SERVE_STORE_FULL', 'WASM_SERVE_STORE_INVALID', 'WASM_SERVE_STORE_UNAVAILABLE'],
    },
    withDefault(
      Type.String({
        pattern: '^(?:memory:$|lmdb:.|rediss?://.)',
        default: 'memory:',
        description: "Store of the guests' state: `memory:`, `lmdb:FOLDER` or `redis://HOST`.",
        hint: 'must be memory:, lmdb:FOLDER, redis://HOST or rediss://HOST',
        holds: 'store',
      }),
    ),
  ),
  storeMax: option(
    { guest: true },
    withDefault(
      Type.Integer({
        unit: 'bytes',
        minimum: 1,
        default: 67_108_864,
        description: 'Maximum size of the store, in bytes. (`memory:`)',
      }),
    ),
  ),
  storeTimeoutMs: option({ guest: true }, ms('Time limit of a store operation, in ms. (`redis:`)', 500)),
  subprocessUser: withDefault(
    Type.String({
      pattern: '^\\d+(?::\\d+)?$',
      default: '65534:65534',
      hint: 'must be numbers, UID or UID:GID',
      description: 'UID and GID of processes that root starts. (subprocess)',
    }),
  ),
  subprocessCgroup: Type.Optional(
    Type.String({
      minLength: 1,
      holds: 'path',
      description: 'Cgroup folder that the processes join. (subprocess)',
    }),
  ),
  ...callHooks,
})
