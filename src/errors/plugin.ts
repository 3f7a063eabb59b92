import { failure } from './failure.ts'

/* A plug-in that is not loaded or not started, and what it uses: its store, the API of `wasm-serve/extism`. */

/* Loading and starting. */

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

/** The thread that loads the plug-in ended early or took too long: nothing of the plug-in is used. */
export const PluginLoadFailedError = failure<[source: string, reason: string]>(
  'WASM_SERVE_PLUGIN_LOAD_FAILED',
  'Plug-in %s cannot be loaded: %s',
)

/** A module exceeds a limit on what is given to the compiler; nothing of it was compiled. */
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

/** The plug-in's source cannot be used: its URL is refused, its pin is not a digest, or its link is not a module. */
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

/** The server's answer is not a plug-in: refused, not found, an HTML page, a redirect that is not followed. */
export const DownloadRefusedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_DOWNLOAD_REFUSED',
  'Cannot download %s: %s',
)

/** The server cannot be reached, or it failed. A cached copy is used, if there is one. */
export const DownloadUnreachableError = failure<[url: string, reason: string]>(
  'WASM_SERVE_DOWNLOAD_UNREACHABLE',
  'Cannot download %s: %s',
)

/** The download was not complete within its time limit. A cached copy is used, if there is one. */
export const DownloadTimeoutError = failure<[url: string, timeoutMs: number]>(
  'WASM_SERVE_DOWNLOAD_TIMEOUT',
  'Cannot download %s: it was not complete after %d ms',
)

/** The download is larger than is allowed; it was cut off. */
export const DownloadTooLargeError = failure<[url: string, maxBytes: number]>(
  'WASM_SERVE_DOWNLOAD_TOO_LARGE',
  'Cannot download %s: it is larger than %d bytes',
)

/** The plug-in imports something that the host does not provide. */
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

/** A folder of `allowedPaths` cannot be opened. */
export const AllowedPathError = failure<[path: string, reason: string]>(
  'WASM_SERVE_ALLOWED_PATH_INVALID',
  'The allowed path %s cannot be opened: %s (--allow-path, or allowed_paths of the manifest)',
)

/** The route or its plug-in's manifest needs a feature that the runtime does not have. */
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

/** The plug-in exports no function, or not the one asked for, or several and none was named. */
export const FunctionUnknownError = failure<[source: string, reason: string]>(
  'WASM_SERVE_FUNCTION_UNKNOWN',
  'Plug-in %s: %s',
)

/* The key-value store. */

/** The URL is not that of a store, or the store cannot be opened. */
export const StoreInvalidError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_INVALID',
  'Store %s cannot be used: %s',
)

/** The store gave no answer in time, or cannot be reached. A write may still have happened. */
export const StoreUnavailableError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_UNAVAILABLE',
  'Store %s cannot be reached: %s',
  503,
)

/** The store has no room for the value; its old value stays. */
export const StoreFullError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_FULL',
  'Store %s is full: %s',
  503,
)

/** The key, namespace, time to live, limit or cursor is not valid. */
export const KvArgumentInvalidError = failure<[problem: string]>(
  'WASM_SERVE_KV_ARGUMENT_INVALID',
  'A store cannot do this: %s',
)

/** The value is larger than a store takes. */
export const KvValueTooLargeError = failure<[bytes: number, limit: number]>(
  'WASM_SERVE_KV_VALUE_TOO_LARGE',
  'A value of %d bytes is larger than the %d bytes that a store takes',
)

/** The plug-in has read access only. */
export const KvReadOnlyError = failure<[namespace: string]>(
  'WASM_SERVE_KV_READ_ONLY',
  'The namespace %s may only be read (kv.access, --kv-access readwrite, allows more)',
)

/** What `wasm-serve store check` found, or `export` had to leave out; the message lists it. */
export const StoreDamagedError = failure<[store: string, faults: string]>(
  'WASM_SERVE_STORE_DAMAGED',
  'Store %s has what no store writes:\n%s',
)

/** `wasm-serve store import` needs an empty store. */
export const StoreNotEmptyError = failure<[store: string]>(
  'WASM_SERVE_STORE_NOT_EMPTY',
  'Store %s is not empty, and was left as it is: --replace removes what is in it',
)

/** The input of `wasm-serve store import` is not an export. Nothing was written. */
export const StoreExportInvalidError = failure<[name: string, line: number, problem: string]>(
  'WASM_SERVE_STORE_EXPORT_INVALID',
  'Cannot import %s, line %d: %s',
)

/* Plug-ins of `wasm-serve/extism`, where the SDK has no error of its own. */

/** `getInstance` was called for a plug-in with `runInWorker`. */
export const InstanceRemoteError = failure(
  'WASM_SERVE_EXTISM_INSTANCE_REMOTE',
  'The instance of the plug-in is in a thread, which it cannot leave: getInstance needs a plug-in without runInWorker',
)

/** The plug-in was closed while a call of it ran. */
export const ExtismPluginClosedError = failure(
  'WASM_SERVE_EXTISM_PLUGIN_CLOSED',
  'The plug-in was closed while a call of it ran',
)

/** The thread of the plug-in ended while a call ran; the next call starts another. */
export const ExtismThreadLostError = failure<[code: number]>(
  'WASM_SERVE_EXTISM_THREAD_LOST',
  'The thread of the plug-in ended with code %d while a call ran',
)

/** The input of a call is larger than the blocks that a call may have. */
export const ExtismInputTooLargeError = failure<[bytes: number]>(
  'WASM_SERVE_EXTISM_INPUT_TOO_LARGE',
  'There is no room for an input of %d bytes: memory.maxPages limits what a call may exchange with its host',
)
