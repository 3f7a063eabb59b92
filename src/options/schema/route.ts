import { Type } from 'typebox'
import { connectionOptions } from './connections.ts'
import { engineOptions } from './engine.ts'
import { guestOptions } from './guest.ts'
import {
  bytes,
  callHook,
  countOption,
  hostFunctionsPath,
  nameOrContract,
  oneOrSeveral,
  only,
  option,
  pluginSource,
  texts,
  withDefault,
} from './option.ts'
import { toolSettings } from './tool.ts'

/** Hooks of the Fastify plugin for all routes, and of a route; `CallHooks` has their types. */
export const callHooks = {
  onCall: option(
    { flag: false, reach: 'answer' },
    Type.Optional(
      callHook('Function that runs before the guest and can replace the input or refuse the call.'),
    ),
  ),
  onResult: option(
    { flag: false, reach: 'answer' },
    Type.Optional(callHook('Function that gets the output when the response is being sent.')),
  ),
  onError: option(
    { flag: false, reach: 'answer' },
    Type.Optional(callHook('Function that gets the error when the response is being sent.')),
  ),
}

export const routeSchema = only({
  method: option(
    { reach: 'place', edit: true, guest: false },
    Type.Optional(
      oneOrSeveral(
        ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', '*'],
        'HTTP methods, `*` for all. Default: POST; all with `simplism`; GET with `websocket`.',
      ),
    ),
  ),
  url: option(
    { reach: 'place', edit: true, guest: false, errors: ['WASM_SERVE_ROUTE_INVALID'] },
    withDefault(
      Type.String({
        pattern: '^(?:/(?:[^/{<][^/]*)?)+$',
        hint: 'must begin with /, and a parameter is written :id, as in /users/:id',
        default: '/',
        public: true,
        description: "URL in Fastify's syntax: `/`, `/users/:id`, `/files/*`.",
      }),
    ),
  ),
  host: option(
    { flag: false, reach: 'place', edit: true },
    Type.Optional(
      Type.String({
        pattern: '^(?:[A-Za-z0-9_.-]+|\\[[A-Fa-f0-9:.]+\\])$',
        hint: 'must be a host name without scheme, port and path, such as api.example.com',
        public: true,
        description: 'Host name, without the port. Default: any.',
      }),
    ),
  ),
  plugin: option(
    {
      flag: false,
      reach: 'source',
      owner: 'fleet',
      errors: [
        'WASM_SERVE_INSTANCE_START_FAILED',
        'WASM_SERVE_PDK_OUTDATED',
        'WASM_SERVE_PLUGIN_FOREIGN',
        'WASM_SERVE_PLUGIN_IMPORT_MISSING',
        'WASM_SERVE_PLUGIN_INVALID',
        'WASM_SERVE_PLUGIN_LOAD_FAILED',
        'WASM_SERVE_PLUGIN_UNREADABLE',
      ],
    },
    pluginSource('Path or URL of a `.wasm`, JavaScript or TypeScript file, or of an Extism manifest.'),
  ),
  function: option(
    { reach: 'place', edit: true },
    Type.Optional(
      Type.String({
        minLength: 1,
        description: 'Exported function to call. Default: the only callable one.',
      }),
    ),
  ),
  contract: option(
    { edit: true, guest: false, errors: ['WASM_SERVE_TOOL_EXPORT_MISSING'] },
    withDefault(
      nameOrContract(['raw', 'http', 'simplism', 'hyper-mcp', 'websocket'], {
        default: 'raw',
        description: 'Format of input and output: raw, http, simplism, websocket, or hyper-mcp (tools only).',
      }),
    ),
  ),
  config: option({ edit: true }, texts('Configuration that the guest reads with `config_get`.')),
  functions: option(
    {
      owner: 'fleet',
      allow: 'functions',
      errors: ['WASM_SERVE_HOST_FUNCTION_ASYNC', 'WASM_SERVE_HOST_FUNCTION_INVALID'],
    },
    Type.Optional(hostFunctionsPath('JavaScript module that exports host functions.')),
  ),
  links: option(
    { flag: 'link', entries: 'links', reach: 'source', owner: 'fleet' },
    texts('Modules that the plug-in imports: name to path or URL.', Type.String({ holds: 'source' })),
  ),
  load: option(
    { reach: 'load', edit: true },
    withDefault(
      Type.Enum(['auto', 'eager', 'lazy'], {
        default: 'auto',
        description:
          'When to compile the plug-in: at start (`eager`) or on its first call (`lazy`). `auto`: lazy if there are more than 256.',
      }),
    ),
  ),
  sleep: option(
    { edit: true },
    withDefault(
      Type.Boolean({
        default: false,
        description:
          'Close idle instances even if their memory of earlier calls is lost. Default: only to make room. (lazy)',
      }),
    ),
  ),
  wasi: option(
    { edit: true, errors: ['WASM_SERVE_WASI_DISABLED'] },
    withDefault(Type.Boolean({ default: true, description: 'Provide WASI preview 1 to the guest.' })),
  ),
  bodyLimit: option(
    { reach: 'answer', edit: true, zero: 'streams', guest: false },
    bytes(
      'Maximum size of a request body, in bytes; larger ones get 413. 0: no limit (streams).',
      1_048_576,
      0,
    ),
  ),
  outputLimit: option(
    { edit: true, zero: 'streams' },
    bytes('Maximum size of an output, in bytes; larger ones get 502. 0: no limit (streams).', 8_388_608, 0),
  ),
  contentType: option(
    { reach: 'answer', edit: true, guest: false },
    Type.Optional(
      Type.String({
        pattern: "^[\\w!#$%&'*+.^`|~-]+/[\\w!#$%&'*+.^`|~-]+ *(?:;[ -~]*)?$",
        hint: 'must be a media type, such as text/html',
        description:
          'Content type of responses. Default: text if the output is valid UTF-8, otherwise bytes.',
      }),
    ),
  ),
  headers: option(
    { flag: 'header', reach: 'answer', edit: true, guest: false },
    texts('Headers of all responses, including failures. Headers of the guest win.'),
  ),
  errorStatus: option(
    { reach: 'answer', edit: true, guest: false },
    Type.Optional(
      Type.Integer({
        minimum: 400,
        maximum: 599,
        description: 'Status if the guest returns an error. Default: 409; 500 with `simplism`.',
      }),
    ),
  ),
  description: option(
    { flag: false, reach: 'document', edit: true },
    Type.Optional(Type.String({ description: 'Description in the OpenAPI document.' })),
  ),
  ...guestOptions,
  ...engineOptions,
  ...connectionOptions,
  kv: option(
    { edit: true, errors: ['WASM_SERVE_KV_ARGUMENT_INVALID'] },
    Type.Optional(
      Type.Object(
        {
          access: Type.Optional(
            Type.Enum(['none', 'read', 'readwrite'], {
              description: 'Access to the store. Default: readwrite.',
            }),
          ),
          namespace: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: 255,
              description: "Namespace of the keys. Default: the plug-in's name.",
            }),
          ),
        },
        {
          additionalProperties: false,
          description: "The guest's access to the store: `access`, `namespace`.",
        },
      ),
    ),
  ),
  logRate: option(
    { edit: true },
    countOption('Maximum log lines of guests per second and thread. Further lines are dropped.', 1_000),
  ),
  smoke: option(
    { flag: false, reach: 'answer', edit: true, errors: ['WASM_SERVE_SMOKE_FAILED'] },
    Type.Optional(
      Type.Object(
        {
          method: Type.Optional(
            Type.String({ minLength: 1, description: "Method. Default: the route's first." }),
          ),
          url: Type.Optional(
            Type.String({
              pattern: '^/',
              hint: 'must begin with /',
              description: "URL. Default: the route's.",
            }),
          ),
          headers: Type.Optional(
            Type.Record(Type.String(), Type.String(), { description: 'Request headers.' }),
          ),
          body: Type.Optional(Type.String({ description: 'Request body. Default: none.' })),
          status: Type.Optional(
            Type.Integer({
              minimum: 200,
              maximum: 599,
              description: 'Expected status. Default: 200.',
            }),
          ),
          answer: Type.Optional(Type.String({ description: 'Expected body. Default: any.' })),
        },
        {
          additionalProperties: false,
          description: 'Test request that must succeed before the route goes live.',
        },
      ),
    ),
  ),
  tool: option(
    { flag: false, reach: 'answer', edit: true, errors: ['WASM_SERVE_TOOL_SCHEMA_INVALID'] },
    Type.Optional({
      ...toolSettings,
      description: 'The route as an MCP tool: `name`, `description`, `inputSchema`...',
    }),
  ),
  timing: option(
    { reach: 'answer', edit: true, guest: false },
    withDefault(
      Type.Boolean({
        default: false,
        description: 'Add the header `Server-Timing`: how long the call waited and ran.',
      }),
    ),
  ),
  ...callHooks,
})
