import { failure } from './failure.ts'

/* Failures to load or start a plug-in, of its key-value store, and of the `wasm-serve/extism` API. */

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

/** The thread that loads the plug-in ended early or took too long: the plug-in is discarded. */
export const PluginLoadFailedError = failure<[source: string, reason: string]>(
  'WASM_SERVE_PLUGIN_LOAD_FAILED',
  'Plug-in %s cannot be loaded: %s',
)

/** A module exceeds a complexity limit and was not compiled. */
export const PluginTooComplexError = failure<
  [source: string, where: string, found: number, unit: string, limit: number, remedy: string]
>('WASM_SERVE_PLUGIN_TOO_COMPLEX', 'Plug-in %s is too complex to compile: %s has %d %s, the limit is %d: %s')

/** A module can allocate outside its linear memory, where no limit applies. */
export const PluginUnboundedError = failure<[source: string, feature: string]>(
  'WASM_SERVE_PLUGIN_UNBOUNDED',
  'Plug-in %s uses %s, whose memory no limit covers: set --allow-gc (option "allowGc") to run it in a separate process',
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

/** The bytes do not match the pin or the manifest's `hash`, and are discarded. */
export const DigestMismatchError = failure<[source: string, expected: string, actual: string]>(
  'WASM_SERVE_DIGEST_MISMATCH',
  'Plug-in source %s has the wrong SHA-256 digest: expected %s, got %s',
)

/** The server's response is not a plug-in: refused, not found, an HTML page, a redirect that is not followed. */
export const DownloadRefusedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_DOWNLOAD_REFUSED',
  'Cannot download %s: %s',
)

/** The server is unreachable or failed. A cached copy is used if one exists. */
export const DownloadUnreachableError = failure<[url: string, reason: string]>(
  'WASM_SERVE_DOWNLOAD_UNREACHABLE',
  'Cannot download %s: %s',
)

/** The download was not complete within its time limit. A cached copy is used if one exists. */
export const DownloadTimeoutError = failure<[url: string, timeoutMs: number]>(
  'WASM_SERVE_DOWNLOAD_TIMEOUT',
  'Cannot download %s: it was not complete after %d ms',
)

/** The download exceeds its size limit; reading stopped there. */
export const DownloadTooLargeError = failure<[url: string, maxBytes: number]>(
  'WASM_SERVE_DOWNLOAD_TOO_LARGE',
  'Cannot download %s: it is larger than %d bytes',
)

/** The plug-in has imports that neither the host nor a linked module provides. */
export const PluginImportError = failure<[source: string, imports: string]>(
  'WASM_SERVE_PLUGIN_IMPORT_MISSING',
  'Plug-in %s has missing imports:\n%s',
)

/** The plug-in was built with an Extism PDK before 1.0, whose imports today's hosts no longer provide. */
export const PdkOutdatedError = failure<[source: string, imports: string]>(
  'WASM_SERVE_PDK_OUTDATED',
  'Plug-in %s was built with an Extism PDK before version 1.0: it imports %s from "env". Rebuild it with a PDK of version 1.0 or later, which imports from "extism:host/env"',
)

/** The plug-in needs WASI, which the route disables. */
export const WasiDisabledError = failure<[source: string, imports: string]>(
  'WASM_SERVE_WASI_DISABLED',
  'Plug-in %s needs WASI (%s), which is disabled: remove --no-wasi (option "wasi": true)',
)

/** A folder of `allowedPaths` cannot be opened. */
export const AllowedPathError = failure<[path: string, reason: string]>(
  'WASM_SERVE_ALLOWED_PATH_INVALID',
  'The allowed path %s cannot be opened: %s (--allow-path, or allowed_paths of the manifest)',
)

/** The route or its plug-in's manifest needs a feature that the runtime lacks. */
export const RuntimeUnfitError = failure<[plugin: string, runtime: string, feature: string]>(
  'WASM_SERVE_RUNTIME_UNFIT',
  'Plug-in %s cannot run on the %s runtime, which has no %s: use --runtime kernel',
)

/** Host functions are invalid; the message lists all problems. */
export const HostFunctionInvalidError = failure<[problems: string]>(
  'WASM_SERVE_HOST_FUNCTION_INVALID',
  'Invalid host functions:\n%s',
)

/** The plug-in imports an async host function but cannot wait for it. */
export const HostFunctionAsyncError = failure<[name: string, reason: string]>(
  'WASM_SERVE_HOST_FUNCTION_ASYNC',
  'Host function %s is async: %s',
)

/** The plug-in cannot be instantiated: linking failed, or its start function trapped. Also thrown by calls. */
export const InstanceStartError = failure<[plugin: string, reason: string]>(
  'WASM_SERVE_INSTANCE_START_FAILED',
  'Plug-in %s cannot be started: %s',
  503,
)

/** The plug-in exports no function, not the named one, or several while the route names none. */
export const FunctionUnknownError = failure<[source: string, reason: string]>(
  'WASM_SERVE_FUNCTION_UNKNOWN',
  'Plug-in %s: %s',
)

/* The key-value store. */

/** The URL is not a store's, or the store cannot be opened. */
export const StoreInvalidError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_INVALID',
  'Store %s cannot be used: %s',
)

/** The store is unreachable or did not respond in time. A write may still have happened. */
export const StoreUnavailableError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_UNAVAILABLE',
  'Store %s cannot be reached: %s',
  503,
)

/** The store has no room for the value; the old value stays. */
export const StoreFullError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_FULL',
  'Store %s is full: %s',
  503,
)

/** The key, namespace, time to live, limit or cursor is not valid. */
export const KvArgumentInvalidError = failure<[problem: string]>(
  'WASM_SERVE_KV_ARGUMENT_INVALID',
  'Invalid store request: %s',
)

/** The value exceeds a store's limit. */
export const KvValueTooLargeError = failure<[bytes: number, limit: number]>(
  'WASM_SERVE_KV_VALUE_TOO_LARGE',
  "A value of %d bytes exceeds the store's limit of %d bytes",
)

/** The plug-in has read-only access. */
export const KvReadOnlyError = failure<[namespace: string]>(
  'WASM_SERVE_KV_READ_ONLY',
  'The namespace %s is read-only: set --kv-access readwrite (kv.access) to allow writes',
)

/** Damaged entries that `wasm-serve store check` found or `export` had to skip; the message lists them. */
export const StoreDamagedError = failure<[store: string, faults: string]>(
  'WASM_SERVE_STORE_DAMAGED',
  'Store %s has damaged entries:\n%s',
)

/** Damaged files that `wasm-serve cache verify` found and removed; the message lists them. */
export const CacheDamagedError = failure<[folder: string, files: string]>(
  'WASM_SERVE_CACHE_DAMAGED',
  'The cache %s had damaged files, which are removed:\n%s',
)

/** `wasm-serve cache` removes nothing from a folder that other users can change. */
export const CacheUntrustedError = failure<[reason: string]>(
  'WASM_SERVE_CACHE_UNTRUSTED',
  'Nothing is removed from the cache: %s',
)

/** `wasm-serve store rename` needs a namespace with keys, and one without, or `--replace`. Nothing was changed. */
export const NamespaceNotRenamedError = failure<[namespace: string, store: string, reason: string]>(
  'WASM_SERVE_NAMESPACE_NOT_RENAMED',
  'Namespace "%s" of store %s was not renamed: %s',
)

/** Two plug-ins would read each other's keys, and not both of them set the namespace. */
export const NamespaceSharedError = failure<
  [one: string, place: string, other: string, otherPlace: string, namespace: string]
>(
  'WASM_SERVE_NAMESPACE_SHARED',
  'Plug-in "%s" (%s) and plug-in "%s" (%s) would share the namespace "%s" of the store: set kv.namespace to it on both to share it, else to another one',
)

/** `wasm-serve store import` needs an empty store. */
export const StoreNotEmptyError = failure<[store: string]>(
  'WASM_SERVE_STORE_NOT_EMPTY',
  'Store %s is not empty and was left unchanged: --replace removes its content first',
)

/** The input of `wasm-serve store import` is not an export. Nothing was written. */
export const StoreExportInvalidError = failure<[name: string, line: number, problem: string]>(
  'WASM_SERVE_STORE_EXPORT_INVALID',
  'Cannot import %s, line %d: %s',
)

/* Plug-ins of `wasm-serve/extism`: cases for which the SDK has no error of its own. */

/** `getInstance` was called for a plug-in with `runInWorker`. */
export const InstanceRemoteError = failure(
  'WASM_SERVE_EXTISM_INSTANCE_REMOTE',
  'The instance of the plug-in lives in a worker thread: getInstance needs a plug-in without runInWorker',
)

/** The plug-in was closed while a call ran, or waited for others. */
export const ExtismPluginClosedError = failure(
  'WASM_SERVE_EXTISM_PLUGIN_CLOSED',
  'The plug-in was closed before the call ended',
)

/** The plug-in's thread ended during a call; the next call starts a new thread. */
export const ExtismThreadLostError = failure<[code: number]>(
  'WASM_SERVE_EXTISM_THREAD_LOST',
  'The thread of the plug-in ended with code %d during a call',
)

/** The input of a call does not fit into the blocks that a call may allocate. */
export const ExtismInputTooLargeError = failure<[bytes: number]>(
  'WASM_SERVE_EXTISM_INPUT_TOO_LARGE',
  'An input of %d bytes does not fit: memory.maxPages limits the bytes that a call may exchange with its host',
)
