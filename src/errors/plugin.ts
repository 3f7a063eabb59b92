import { failure } from './failure.ts'

/* Failures to load or to start a plug-in. */

export const PluginUnreadableError = failure({
  code: 'WASM_SERVE_PLUGIN_UNREADABLE',
  site: 'command',
  isMistake: true,
  message: 'Cannot read plug-in %s: %s',
  cause: 'The file cannot be read.',
  remedy: 'Check its path and permissions.',
})

export const PluginInvalidError = failure({
  code: 'WASM_SERVE_PLUGIN_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s cannot be used: %s',
  cause: 'The file is not a WebAssembly core module, or requires more memory than the limit.',
  remedy: 'Build a core module, not a component.',
})

export const ScriptInvalidError = failure({
  code: 'WASM_SERVE_SCRIPT_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Script %s cannot be used: %s',
  cause: 'The script has a syntax error or a missing import, exports no function, or throws while it loads.',
  remedy: 'Correct the line that the message names.',
})

export const PluginLoadFailedError = failure({
  code: 'WASM_SERVE_PLUGIN_LOAD_FAILED',
  site: 'command',
  message: 'Plug-in %s cannot be loaded: %s',
  cause:
    "Loading took too long (60 s; a script 5 s), its thread terminated, or a lazy plug-in's file changed.",
  remedy: 'Use a smaller module or a faster machine. Reload after files change.',
})

export const PluginTooComplexError = failure({
  code: 'WASM_SERVE_PLUGIN_TOO_COMPLEX',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s is too complex to compile: %s has %d %s, the limit is %d: %s',
  cause: 'The module exceeds a [limit](../protect/module-limits.md) on compilation cost.',
  remedy: 'If you trust the plug-in, raise the limit with `--module-limit`.',
})

export const PluginUnboundedError = failure({
  code: 'WASM_SERVE_PLUGIN_UNBOUNDED',
  site: 'command',
  isMistake: true,
  message:
    'Plug-in %s uses %s, whose memory no limit covers: set --allow-gc (option "allowGc") to run it in a separate process',
  cause: 'The plug-in has garbage-collected types or keeps exceptions, whose memory has no limit.',
  remedy: 'If you trust the plug-in, use `--allow-gc` with `--engine subprocess`.',
})

export const SourceInvalidError = failure({
  code: 'WASM_SERVE_SOURCE_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Plug-in source %s cannot be used: %s',
  cause: 'The URL, digest or link of the plug-in is not valid.',
  remedy: 'Use a path, an `https` URL, or `#sha256=` with 64 hexadecimal digits.',
})

export const ManifestInvalidError = failure({
  code: 'WASM_SERVE_MANIFEST_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Manifest %s is not valid:\n%s',
  cause: 'The Extism manifest has errors.',
  remedy: 'Correct the listed keys.',
})

export const DigestMismatchError = failure({
  code: 'WASM_SERVE_DIGEST_MISMATCH',
  site: 'command',
  message: 'Plug-in source %s has the wrong SHA-256 digest: expected %s, got %s',
  cause: "The content does not match the pinned digest or the manifest's `hash`.",
  remedy: 'Check the source. If the content is right, change the digest.',
})

export const DownloadRefusedError = failure({
  code: 'WASM_SERVE_DOWNLOAD_REFUSED',
  site: 'command',
  message: 'Cannot download %s: %s',
  cause: 'The server did not respond with a plug-in.',
  remedy: 'Check the URL, and `WASM_SERVE_SOURCE_AUTH` if the server requires credentials.',
})

export const DownloadUnreachableError = failure({
  code: 'WASM_SERVE_DOWNLOAD_UNREACHABLE',
  site: 'command',
  message: 'Cannot download %s: %s',
  cause: 'The server failed or cannot be reached, and the cache has no copy.',
  remedy: 'Check the network and the host name.',
})

export const DownloadTimeoutError = failure({
  code: 'WASM_SERVE_DOWNLOAD_TIMEOUT',
  site: 'command',
  message: 'Cannot download %s: it was not complete after %d ms',
  cause: 'The download took longer than `downloadTimeoutMs`.',
  remedy: 'Raise `downloadTimeoutMs`.',
})

export const DownloadTooLargeError = failure({
  code: 'WASM_SERVE_DOWNLOAD_TOO_LARGE',
  site: 'command',
  isMistake: true,
  message: 'Cannot download %s: it is larger than %d bytes',
  cause: 'The download is larger than `downloadLimit`.',
  remedy: 'Raise `downloadLimit`.',
})

export const PluginForeignError = failure({
  code: 'WASM_SERVE_PLUGIN_FOREIGN',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s was not made for Extism; it is %s',
  cause:
    'The module cannot be used, and its imports and exports show for which other host it was made: a proxy, a browser, another runtime.',
  remedy: 'Build the plug-in with an [Extism PDK](https://extism.org/docs/concepts/pdk).',
})

export const PluginImportError = failure({
  code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s has missing imports; --functions provides functions, and --link modules:\n%s',
  cause: 'The plug-in has imports that nothing provides.',
  remedy: 'Provide them with `--functions` or `--link`.',
})

export const PdkOutdatedError = failure({
  code: 'WASM_SERVE_PDK_OUTDATED',
  site: 'command',
  isMistake: true,
  message:
    'Plug-in %s was built with an Extism PDK before version 1.0: it imports %s from "env". Rebuild it with a PDK of version 1.0 or later, which imports from "extism:host/env"',
  cause: 'The plug-in was built with an Extism PDK before 1.0.',
  remedy: 'Rebuild it with PDK 1.0 or later.',
})

export const WasiDisabledError = failure({
  code: 'WASM_SERVE_WASI_DISABLED',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s needs WASI (%s), which is disabled: remove --no-wasi (option "wasi": true)',
  cause: 'The plug-in requires WASI, which is disabled.',
  remedy: 'Remove `--no-wasi`, or the options that require WASI.',
})

export const AllowedPathError = failure({
  code: 'WASM_SERVE_ALLOWED_PATH_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The allowed path %s cannot be opened: %s (--allow-path, or allowed_paths of the manifest)',
  cause: 'A path for the guest is not a folder.',
  remedy: 'Name a folder that exists.',
})

export const RuntimeUnfitError = failure({
  code: 'WASM_SERVE_RUNTIME_UNFIT',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s cannot run on the %s runtime, which has no %s: use --runtime kernel',
  cause: 'The route or manifest requires a feature that the runtime lacks.',
  remedy: 'Use the kernel runtime (the default), or remove the option.',
})

export const HostFunctionInvalidError = failure({
  code: 'WASM_SERVE_HOST_FUNCTION_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Invalid host functions:\n%s',
  cause: 'The module of host functions cannot be used.',
  remedy: 'Export an object of namespaces with functions. `extism:host/env` is reserved.',
})

export const HostFunctionAsyncError = failure({
  code: 'WASM_SERVE_HOST_FUNCTION_ASYNC',
  site: 'command',
  isMistake: true,
  message: 'Host function %s is async: %s',
  cause: 'The plug-in imports an async host function.',
  remedy: 'Use Node.js 24 or later. For a store, `--workers 1` is enough.',
})

export const InstanceStartError = failure({
  code: 'WASM_SERVE_INSTANCE_START_FAILED',
  status: 503,
  message: 'Plug-in %s cannot be started: %s',
  cause:
    'The plug-in cannot be started: for example, its start function traps or takes longer than `--start-timeout-ms`.',
  remedy: 'Correct the reason that the message names.',
})

export const FunctionUnknownError = failure({
  code: 'WASM_SERVE_FUNCTION_UNKNOWN',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s: %s',
  cause: 'The function does not exist or cannot be called, or none of several is selected.',
  remedy: 'Name a function that `wasm-serve inspect` lists.',
})
