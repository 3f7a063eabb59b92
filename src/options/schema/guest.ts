import { Type } from 'typebox'
import { hosts, option, texts, withDefault } from './option.ts'

/** Options of a route: its guests. */
export const guestOptions = {
  runtime: option(
    { reach: 'load', edit: true, errors: ['WASM_SERVE_RUNTIME_UNFIT'] },
    withDefault(
      Type.Enum(['kernel', 'sdk'], {
        default: 'kernel',
        description: "Runtime: wasm-serve's kernel, or Extism's SDK for comparison.",
      }),
    ),
  ),
  isolation: option(
    { reach: 'load', edit: true },
    withDefault(
      Type.Enum(['reuse', 'fresh'], {
        default: 'reuse',
        description: '`reuse`: instances keep state between calls. `fresh`: each call starts with new state.',
      }),
    ),
  ),
  interrupts: option(
    { reach: 'load', edit: true },
    withDefault(
      Type.Enum(['on', 'off'], {
        default: 'on',
        description:
          '`on`: guests check for interrupts, so a deadline terminates only the guest. `off`: guests are faster, but a deadline terminates their thread or process, and nothing on the event loop. (kernel)',
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
        description: 'Folders of the guest (WASI): host path to guest path. Prefix `ro:`: read-only.',
      }),
    ),
  ),
  allowedHosts: option(
    { flag: 'allow-host', edit: true },
    hosts("Hosts to which the guest may send HTTP requests. Default: the manifest's, or none."),
  ),
  memoryMax: option(
    { reach: 'load', edit: true },
    Type.Optional(
      Type.Integer({
        unit: 'pages',
        minimum: 1,
        maximum: 65_536,
        description: "Maximum memory of the guest, in pages of 64 KiB. Default: the manifest's, or 2048.",
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
          "Maximum size of an instance's variables, in bytes. 0: no variables. Default: the manifest's, or 1048576.",
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
          "Maximum size of a response to the guest, in bytes. 0: no limit (streams). Default: the manifest's, or 52428800.",
      }),
    ),
  ),
  httpErrors: option(
    { edit: true },
    withDefault(
      Type.Enum(['trap', 'status'], {
        default: 'trap',
        description:
          'Effect of a failed HTTP request of the guest: the call fails (`trap`), or the status is 0 (`status`).',
      }),
    ),
  ),
}
