import { failure } from './failure.ts'

/* Failures to load or to start a plug-in. */

export const PluginUnreadableError = failure({
  code: 'WASM_SERVE_PLUGIN_UNREADABLE',
  site: 'command',
  isMistake: true,
  message: 'Cannot read plug-in %s: %s',
  cause: 'The file does not exist or cannot be read.',
  remedy: 'Check the path and the permissions of the file.',
})

export const PluginInvalidError = failure({
  code: 'WASM_SERVE_PLUGIN_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s cannot be used: %s',
  cause:
    'The bytes are not a WebAssembly core module, or need more memory than the limit. The message says which kind of file it is.',
  remedy: 'Build a core module (not a component). The message has the kind of file, and the required memory.',
})

export const ScriptInvalidError = failure({
  code: 'WASM_SERVE_SCRIPT_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Script %s cannot be used: %s',
  cause:
    'A script of JavaScript or TypeScript has a syntax error, imports what is not there, exports no function, or throws while it loads.',
  remedy: 'Correct the line that the message names.',
})

export const PluginLoadFailedError = failure({
  code: 'WASM_SERVE_PLUGIN_LOAD_FAILED',
  site: 'command',
  message: 'Plug-in %s cannot be loaded: %s',
  cause:
    'The thread that loads the plug-in has ended, or took more than 60 s (5 s for a script), or the file of a lazy plug-in has changed; nothing of the plug-in is used.',
  remedy: 'Use a smaller module, or a faster machine. Reload the configuration after a change of files.',
})

export const PluginTooComplexError = failure({
  code: 'WASM_SERVE_PLUGIN_TOO_COMPLEX',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s is too complex to compile: %s has %d %s, the limit is %d: %s',
  cause:
    'A module exceeds the [limits](../operate/module-limits.md) on compilation cost; the message names function, number and flag.',
  remedy: 'Raise the limit that the message names with `--module-limit`, if you trust the plug-in.',
})

export const PluginUnboundedError = failure({
  code: 'WASM_SERVE_PLUGIN_UNBOUNDED',
  site: 'command',
  isMistake: true,
  message:
    'Plug-in %s uses %s, whose memory no limit covers: set --allow-gc (option "allowGc") to run it in a separate process',
  cause:
    'The plug-in has garbage-collected types, or keeps exceptions, which no memory limit bounds: see `--allow-gc`.',
  remedy: 'Use `--allow-gc` with `--engine subprocess`, if you trust the plug-in.',
})

export const SourceInvalidError = failure({
  code: 'WASM_SERVE_SOURCE_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Plug-in source %s cannot be used: %s',
  cause:
    'What names the plug-in is refused: a URL, a pin that is not a digest, or a link that is not a module.',
  remedy: 'Use a path, an `https` URL, or `#sha256=` with 64 hexadecimal digits.',
})

export const ManifestInvalidError = failure({
  code: 'WASM_SERVE_MANIFEST_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Manifest %s is not valid:\n%s',
  cause: 'The Extism manifest has errors. Each is listed with the path of its key.',
  remedy: 'Correct each key that is listed.',
})

export const DigestMismatchError = failure({
  code: 'WASM_SERVE_DIGEST_MISMATCH',
  site: 'command',
  isMistake: true,
  message: 'Plug-in source %s has the wrong SHA-256 digest: expected %s, got %s',
  cause: "The bytes are not those that the pin or the manifest's `hash` names.",
  remedy: 'Check where the bytes come from. If the new ones are right, change the pin.',
})

export const DownloadRefusedError = failure({
  code: 'WASM_SERVE_DOWNLOAD_REFUSED',
  site: 'command',
  message: 'Cannot download %s: %s',
  cause: 'The server answered with something else than a plug-in.',
  remedy: 'Check the URL, and `WASM_SERVE_SOURCE_AUTH` if the server asks for credentials.',
})

export const DownloadUnreachableError = failure({
  code: 'WASM_SERVE_DOWNLOAD_UNREACHABLE',
  site: 'command',
  message: 'Cannot download %s: %s',
  cause: 'The server cannot be reached or failed, and the cache has no copy.',
  remedy: 'Check the network and the host name.',
})

export const DownloadTimeoutError = failure({
  code: 'WASM_SERVE_DOWNLOAD_TIMEOUT',
  site: 'command',
  message: 'Cannot download %s: it was not complete after %d ms',
  cause: 'The download was not complete in time.',
  remedy: 'Raise `downloadTimeoutMs`.',
})

export const DownloadTooLargeError = failure({
  code: 'WASM_SERVE_DOWNLOAD_TOO_LARGE',
  site: 'command',
  isMistake: true,
  message: 'Cannot download %s: it is larger than %d bytes',
  cause: 'The download is larger than is allowed.',
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
  cause: 'The plug-in has missing imports. The message lists all of them.',
  remedy: 'Provide the imports with `--functions` or `--link`.',
})

export const PdkOutdatedError = failure({
  code: 'WASM_SERVE_PDK_OUTDATED',
  site: 'command',
  isMistake: true,
  message:
    'Plug-in %s was built with an Extism PDK before version 1.0: it imports %s from "env". Rebuild it with a PDK of version 1.0 or later, which imports from "extism:host/env"',
  cause: 'The plug-in was built with an Extism PDK before 1.0: build it again with a newer one.',
  remedy: 'Build the plug-in with a PDK of version 1.0 or later.',
})

export const WasiDisabledError = failure({
  code: 'WASM_SERVE_WASI_DISABLED',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s needs WASI (%s), which is disabled: remove --no-wasi (option "wasi": true)',
  cause: 'The plug-in needs WASI and has it switched off.',
  remedy: 'Remove `--no-wasi`, or the options that need WASI.',
})

export const AllowedPathError = failure({
  code: 'WASM_SERVE_ALLOWED_PATH_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The allowed path %s cannot be opened: %s (--allow-path, or allowed_paths of the manifest)',
  cause: 'A folder for the guest does not exist, or is not a folder.',
  remedy: 'Name a folder that exists.',
})

export const RuntimeUnfitError = failure({
  code: 'WASM_SERVE_RUNTIME_UNFIT',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s cannot run on the %s runtime, which has no %s: use --runtime kernel',
  cause: 'The route or the manifest needs a feature that the runtime does not have.',
  remedy: 'Use the kernel runtime (the default), or remove the option that the message names.',
})

export const HostFunctionInvalidError = failure({
  code: 'WASM_SERVE_HOST_FUNCTION_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Invalid host functions:\n%s',
  cause: 'The module of host functions cannot be loaded, exports no functions, or uses a reserved name.',
  remedy: 'Export an object of namespaces with functions, under other names than `extism:host/env`.',
})

export const HostFunctionAsyncError = failure({
  code: 'WASM_SERVE_HOST_FUNCTION_ASYNC',
  site: 'command',
  isMistake: true,
  message: 'Host function %s is async: %s',
  cause:
    'The plug-in imports an async host function and cannot wait for it: Node.js 24 or later can; for a store, so can a thread.',
  remedy: 'Use Node.js 24 or later. For a store, `--workers 1` is enough.',
})

export const InstanceStartError = failure({
  code: 'WASM_SERVE_INSTANCE_START_FAILED',
  status: 503,
  message: 'Plug-in %s cannot be started: %s',
  cause:
    'No instance is running, and none can be started. Also the reason why a plug-in is not served at all.',
  remedy:
    'Read the message: it has the reason, such as a trap in the start function or a start that exceeds `--start-timeout-ms`.',
})

export const FunctionUnknownError = failure({
  code: 'WASM_SERVE_FUNCTION_UNKNOWN',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s: %s',
  cause: 'The function does not exist, no function can be called, or there are several and none is selected.',
  remedy: 'Name one of the functions that the message or `wasm-serve inspect` lists.',
})
