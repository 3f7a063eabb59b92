import { failure } from './failure.ts'

/* Why a plug-in is not loaded, or not started. */

/** The plug-in's bytes cannot be read: no such file, a directory, no permission. */
export const PluginUnreadableError = failure<[source: string, reason: string]>(
  'WASM_SERVE_PLUGIN_UNREADABLE',
  'Cannot read plug-in %s: %s',
)

/** The bytes are not a WebAssembly core module. */
export const PluginInvalidError = failure<[source: string, reason: string]>(
  'WASM_SERVE_PLUGIN_INVALID',
  'Plug-in %s cannot be used: %s',
)

/** The thread that loads the plug-in has ended before it was done, or took too long: nothing of the plug-in is used. */
export const PluginLoadFailedError = failure<[source: string, reason: string]>(
  'WASM_SERVE_PLUGIN_LOAD_FAILED',
  'Plug-in %s cannot be loaded: %s',
)

/** A module asks for more than may be asked of the compiler; nothing of it was compiled. */
export const PluginTooComplexError = failure<
  [source: string, where: string, found: number, what: string, most: number, remedy: string]
>(
  'WASM_SERVE_PLUGIN_TOO_COMPLEX',
  'Plug-in %s is too complex to be compiled: %s has %d %s, and may have %d: %s',
)

/** A module can allocate outside of its memory, where nothing bounds it. */
export const PluginUnboundedError = failure<[source: string, what: string]>(
  'WASM_SERVE_PLUGIN_UNBOUNDED',
  'Plug-in %s uses %s, which no memory limit bounds: --allow-gc (option "allowGc") lets it run, in a process of its own',
)

/** What names the plug-in cannot be used: a URL that is refused, a pin that is no digest, a link that is no module. */
export const SourceInvalidError = failure<[source: string, reason: string]>(
  'WASM_SERVE_SOURCE_INVALID',
  'Plug-in source %s cannot be used: %s',
)

/** The Extism manifest is not valid; the message lists every problem with the path of its key. */
export const ManifestInvalidError = failure<[manifest: string, problems: string]>(
  'WASM_SERVE_MANIFEST_INVALID',
  'Manifest %s is not valid:\n%s',
)

/** The bytes are not those that the pin or the manifest's `hash` names; nothing of them is used. */
export const DigestMismatchError = failure<[source: string, expected: string, actual: string]>(
  'WASM_SERVE_DIGEST_MISMATCH',
  'Plug-in source %s has another SHA-256 digest: expected %s, got %s',
)

/** The server answered, but with no plug-in: refused, not found, an HTML page, a redirect that is not followed. */
export const DownloadRefusedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_DOWNLOAD_REFUSED',
  'Cannot download %s: %s',
)

/** No server can be reached, or it failed. A cached copy is used, if there is one. */
export const DownloadUnreachableError = failure<[url: string, reason: string]>(
  'WASM_SERVE_DOWNLOAD_UNREACHABLE',
  'Cannot download %s: %s',
)

/** The download was not complete when its time was up. A cached copy is used, if there is one. */
export const DownloadTimeoutError = failure<[url: string, timeoutMs: number]>(
  'WASM_SERVE_DOWNLOAD_TIMEOUT',
  'Cannot download %s: it was not complete after %d ms',
)

/** The download is larger than is allowed; it was cut off. */
export const DownloadTooLargeError = failure<[url: string, maxBytes: number]>(
  'WASM_SERVE_DOWNLOAD_TOO_LARGE',
  'Cannot download %s: it is larger than %d bytes',
)

/** The plug-in imports something that nobody provides. */
export const PluginImportError = failure<[source: string, imports: string]>(
  'WASM_SERVE_PLUGIN_IMPORT_MISSING',
  'Plug-in %s needs imports that nobody provides:\n%s',
)

/** The plug-in was built with an Extism PDK before 1.0, whose imports hosts have not provided since. */
export const PdkOutdatedError = failure<[source: string, imports: string]>(
  'WASM_SERVE_PDK_OUTDATED',
  'Plug-in %s was built with an Extism PDK before version 1.0: it imports %s from "env". Build it again with a PDK of version 1.0 or later, which imports from "extism:host/env"',
)

/** The plug-in needs WASI and the route has it switched off. */
export const WasiDisabledError = failure<[source: string, imports: string]>(
  'WASM_SERVE_WASI_DISABLED',
  'Plug-in %s needs WASI (%s), which is switched off: leave out --no-wasi (option "wasi": true)',
)

/** A folder that the guest is to see cannot be had. */
export const AllowedPathError = failure<[path: string, reason: string]>(
  'WASM_SERVE_ALLOWED_PATH_INVALID',
  'The allowed path %s cannot be opened: %s (--allow-path, or allowed_paths of the manifest)',
)

/** The route or its plug-in's manifest asks for what the runtime does not have. */
export const RuntimeUnfitError = failure<[plugin: string, runtime: string, wanted: string]>(
  'WASM_SERVE_RUNTIME_UNFIT',
  'Plug-in %s cannot run on the %s runtime, which has no %s: use --runtime kernel',
)

/** Host functions cannot be used as they are; the message lists all problems. */
export const HostFunctionInvalidError = failure<[problems: string]>(
  'WASM_SERVE_HOST_FUNCTION_INVALID',
  'Host functions cannot be used:\n%s',
)

/** The plug-in imports a host function that is async, and cannot wait for it. */
export const HostFunctionAsyncError = failure<[name: string, reason: string]>(
  'WASM_SERVE_HOST_FUNCTION_ASYNC',
  'Host function %s is async: %s',
)

/** The plug-in cannot be instantiated: linking failed, or its start function trapped. Calls meet it too. */
export const InstanceStartError = failure<[plugin: string, reason: string]>(
  'WASM_SERVE_INSTANCE_START_FAILED',
  'Plug-in %s cannot be started: %s',
  503,
)

/** No export of the plug-in can be called, the one asked for does not exist, or none was named and there are several. */
export const FunctionUnknownError = failure<[source: string, reason: string]>(
  'WASM_SERVE_FUNCTION_UNKNOWN',
  'Plug-in %s: %s',
)
