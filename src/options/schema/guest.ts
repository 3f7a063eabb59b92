import { Type } from 'typebox'
import { hosts, option, texts, withDefault } from './option.ts'

/** Options of a route: its guests. */
export const guestOptions = {
  runtime: option(
    { reach: 'load', edit: true, errors: ['WASM_SERVE_RUNTIME_UNFIT'] },
    withDefault(
      Type.Enum(['kernel', 'sdk'], {
        default: 'kernel',
        description: "Runtime of the guests: wasm-serve's kernel, or Extism's SDK as a reference.",
      }),
    ),
  ),
  isolation: option(
    { reach: 'load', edit: true },
    withDefault(
      Type.Enum(['reuse', 'fresh'], {
        default: 'reuse',
        description: '`reuse`: an instance serves many calls. `fresh`: each call gets a new state.',
      }),
    ),
  ),
  interrupts: option(
    { reach: 'load', edit: true },
    withDefault(
      Type.Enum(['on', 'off'], {
        default: 'on',
        description:
          '`on`: guests check often whether they have to stop, so that a deadline ends the guest only. `off`: they are faster, but a deadline ends their thread or process, and nothing ends them on the event loop. (kernel)',
      }),
    ),
  ),
  recycle: option(
    { edit: true },
    Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'Number of calls after which an instance is replaced. Default: never.',
      }),
    ),
  ),
  recycleMemory: option(
    { edit: true },
    Type.Optional(
      Type.Integer({
        unit: 'bytes',
        minimum: 1,
        description: 'Memory above which an instance is replaced, in bytes. Default: 3/4 of memoryMax.',
      }),
    ),
  ),
  env: option({ edit: true }, texts('Environment variables of the guest (WASI).')),
  allowedPaths: option(
    { flag: 'allow-path', entries: 'paths', owner: 'fleet', errors: ['WASM_SERVE_ALLOWED_PATH_INVALID'] },
    withDefault(
      Type.Record(Type.String(), Type.String(), {
        default: {},
        holds: 'folders',
        examples: [{ './data': '/data' }],
        description:
          'Folders of the guest (WASI): host path to guest path. The prefix `ro:` makes one read-only.',
      }),
    ),
  ),
  allowedHosts: option(
    { flag: 'allow-host', edit: true },
    hosts("Hosts to which the guest may send HTTP requests. Default: the manifest's, else none."),
  ),
  memoryMax: option(
    { reach: 'load', edit: true },
    Type.Optional(
      Type.Integer({
        unit: 'pages',
        minimum: 1,
        maximum: 65_536,
        description: "Maximum memory of the guest, in pages of 64 KiB. Default: the manifest's, else 2048.",
      }),
    ),
  ),
  blockLimit: option(
    { edit: true },
    Type.Optional(
      Type.Integer({
        unit: 'bytes',
        minimum: 1,
        maximum: 2_147_483_647,
        description:
          "Maximum bytes that guest and host exchange per call. Default: the manifest's max_pages, up to 67108864. (kernel)",
      }),
    ),
  ),
  varMax: option(
    { edit: true },
    Type.Optional(
      Type.Integer({
        unit: 'bytes',
        minimum: 0,
        description:
          "Maximum bytes of the values of an instance's variables. 0: no variables. Default: the manifest's, else 1048576.",
      }),
    ),
  ),
  httpResponseMax: option(
    { edit: true },
    Type.Optional(
      Type.Integer({
        unit: 'bytes',
        minimum: 0,
        description:
          "Maximum bytes of the answer to a guest's HTTP request. 0: no limit if it is streamed. Default: the manifest's, else 52428800.",
      }),
    ),
  ),
  httpErrors: option(
    { edit: true },
    withDefault(
      Type.Enum(['trap', 'status'], {
        default: 'trap',
        description:
          'Effect of a failed HTTP request of a guest: the call ends (`trap`), or status 0 (`status`).',
      }),
    ),
  ),
}
