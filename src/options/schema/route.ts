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
      callHook('Function that runs before the guest. It may replace the input or refuse the call.'),
    ),
  ),
  onResult: option(
    { flag: false, reach: 'answer' },
    Type.Optional(callHook('Function that gets the output of the guest once the answer is being sent.')),
  ),
  onError: option(
    { flag: false, reach: 'answer' },
    Type.Optional(callHook('Function that gets the error of a failed call once the answer is being sent.')),
  ),
}

export const routeSchema = only({
  method: option(
    { reach: 'place', edit: true, guest: false },
    Type.Optional(
      oneOrSeveral(
        ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', '*'],
        'HTTP methods of the route, `*` for all. Default: POST; all with `simplism`; GET with `websocket`.',
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
        description: "URL of the route in Fastify's syntax: `/`, `/users/:id`, `/files/*`.",
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
        description: 'Host name of the route, without the port. Default: any.',
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
    pluginSource(
      'Path or URL of the plug-in: a `.wasm` file, a JavaScript or TypeScript file, or an Extism manifest.',
    ),
  ),
  function: option(
    { reach: 'place', edit: true },
    Type.Optional(
      Type.String({
        minLength: 1,
        description: 'Exported function to call. Default: the only one that can be called.',
      }),
    ),
  ),
  contract: option(
    { edit: true, guest: false, errors: ['WASM_SERVE_TOOL_EXPORT_MISSING'] },
    withDefault(
      nameOrContract(['raw', 'http', 'simplism', 'hyper-mcp', 'websocket'], {
        default: 'raw',
        description:
          'Format of requests and answers between server and guest: raw, http or simplism; websocket; hyper-mcp for tools only.',
      }),
    ),
  ),
  config: option({ edit: true }, texts('Configuration of the guest, which it reads with `config_get`.')),
  functions: option(
    {
      owner: 'fleet',
      allow: 'functions',
      errors: ['WASM_SERVE_HOST_FUNCTION_ASYNC', 'WASM_SERVE_HOST_FUNCTION_INVALID'],
    },
    Type.Optional(hostFunctionsPath('Path of a JavaScript module that exports host functions.')),
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
          'When a plug-in is compiled: at the start (`eager`) or on its first call (`lazy`). `auto`: lazy with more than 256.',
      }),
    ),
  ),
  sleep: option(
    { edit: true },
    withDefault(
      Type.Boolean({
        default: false,
        description:
          'Close idle instances also if that loses memory of earlier calls. Default: only to make room for others. (lazy)',
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
      'Maximum size of a request body, in bytes. Larger bodies get 413. Streams: 0 is no limit.',
      1_048_576,
      0,
    ),
  ),
  outputLimit: option(
    { edit: true, zero: 'streams' },
    bytes(
      "Maximum size of a guest's output, in bytes. Larger output gets 502. Streams: 0 is no limit.",
      8_388_608,
      0,
    ),
  ),
  contentType: option(
    { reach: 'answer', edit: true, guest: false },
    Type.Optional(
      Type.String({
        pattern: "^[\\w!#$%&'*+.^`|~-]+/[\\w!#$%&'*+.^`|~-]+ *(?:;[ -~]*)?$",
        hint: 'must be a media type, such as text/html',
        description: 'Content type of the answers. Default: text if the output is valid UTF-8, else bytes.',
      }),
    ),
  ),
  headers: option(
    { flag: 'header', reach: 'answer', edit: true, guest: false },
    texts('Headers of each answer, failures included. Headers that the guest sets win.'),
  ),
  errorStatus: option(
    { reach: 'answer', edit: true, guest: false },
    Type.Optional(
      Type.Integer({
        minimum: 400,
        maximum: 599,
        description: 'Status when the guest returns an error. Default: 409; 500 with `simplism`.',
      }),
    ),
  ),
  description: option(
    { flag: false, reach: 'document', edit: true },
    Type.Optional(Type.String({ description: 'Description of the route, for the OpenAPI document.' })),
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
        {
          additionalProperties: false,
          description: "The guest's access to the store: `access`, `namespace`.",
        },
      ),
    ),
  ),
  logRate: option(
    { edit: true },
    countOption('Maximum lines that guests log per second and thread. Further lines are dropped.', 1_000),
  ),
  smoke: option(
    { flag: false, reach: 'answer', edit: true, errors: ['WASM_SERVE_SMOKE_FAILED'] },
    Type.Optional(
      Type.Object(
        {
          method: Type.Optional(
            Type.String({ minLength: 1, description: "Method of the request. Default: the route's first." }),
          ),
          url: Type.Optional(
            Type.String({
              pattern: '^/',
              hint: 'must begin with /',
              description: "URL of the request. Default: the route's.",
            }),
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
  ),
  tool: option(
    { flag: false, reach: 'answer', edit: true, errors: ['WASM_SERVE_TOOL_SCHEMA_INVALID'] },
    Type.Optional({
      ...toolSettings,
      description: 'The route as a tool of the MCP endpoint: `name`, `description`, `inputSchema`...',
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
