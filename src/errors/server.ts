import { failure } from './failure.ts'

/* Failures to start a server: its routes, its listener, its serving processes. */

export const RouteConflictError = failure({
  code: 'WASM_SERVE_ROUTE_CONFLICT',
  site: 'command',
  isMistake: true,
  message: 'Two routes match %s %s: give one of them another "url", "method" or "host"',
  cause: 'Two routes have the same method, URL and host.',
  remedy: 'Change the `method`, `url` or `host` of one of them.',
})

export const RouteInvalidError = failure({
  code: 'WASM_SERVE_ROUTE_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The route %s cannot be added: %s',
  cause: 'The URL is not valid, or the app already has a route there.',
  remedy: 'Correct the URL, or remove the other route.',
})

export const SmokeFailedError = failure({
  code: 'WASM_SERVE_SMOKE_FAILED',
  site: 'command',
  message: 'The smoke request of route %s failed: %s',
  cause: 'The response to the `smoke` request is not the expected one.',
  remedy: 'Correct the plug-in or the `smoke` request.',
})

export const ProcessStuckError = failure({
  code: 'WASM_SERVE_PROCESS_STUCK',
  site: 'log',
  message: '%d threads are stuck in native calls and cannot be terminated: restart the process',
  cause: 'Four threads cannot be terminated. The process drains and exits with 75.',
  remedy: 'Let a supervisor restart it. Run the plug-ins that the log names with `--engine subprocess`.',
})

export const ListenError = failure({
  code: 'WASM_SERVE_LISTEN_FAILED',
  site: 'command',
  message: 'Cannot listen on %s: %s',
  cause: 'The address is in use, not permitted, or not an address of this machine.',
  remedy: 'Choose another `--port` or `--host`, or stop the other process.',
})

export const TlsInvalidError = failure({
  code: 'WASM_SERVE_TLS_INVALID',
  site: 'command',
  isMistake: true,
  message: 'TLS file %s cannot be used: %s',
  cause: 'A `tls` file cannot be read, is not PEM, or the key does not match the certificate.',
  remedy: 'Name a PEM file with the certificate chain, and its key.',
})

export const JwtKeyInvalidError = failure({
  code: 'WASM_SERVE_JWT_KEY_INVALID',
  site: 'command',
  isMistake: true,
  message: 'JWT key %s cannot be used: %s',
  cause: 'A `jwt` file cannot be read, is not a key, or is for other algorithms.',
  remedy: 'Name a PEM, JWK or JWKS file with keys of the allowed algorithms.',
})

export const StaticFolderError = failure({
  code: 'WASM_SERVE_STATIC_FOLDER_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The static folder %s cannot be served: %s',
  cause: 'A folder of `static` cannot be opened.',
  remedy: 'Name a folder that the server can read.',
})

export const ProcessSilentError = failure({
  code: 'WASM_SERVE_PROCESS_SILENT',
  status: 503,
  message: 'Serving process %d is silent',
  cause:
    'The [serving process](../operate/processes.md) of the admin call is stopped, or blocked its event loop for five seconds.',
  remedy: 'Repeat the call. `/api/processes` shows the silent process.',
})

export const ProcessEndedError = failure({
  code: 'WASM_SERVE_PROCESS_ENDED',
  status: 503,
  message: 'Serving process %d exited (%s)',
  cause:
    'A [serving process](../operate/processes.md) terminated while it prepared a change. Nothing was changed.',
  remedy:
    'Repeat the change. If it fails again, the plug-in may need too much memory or block the event loop: read the log.',
})

export const PrimaryGoneError = failure({
  code: 'WASM_SERVE_PRIMARY_GONE',
  site: 'log',
  message:
    'The primary has been gone for %d ms, and something holds the event loop: the serving process is killed',
  cause:
    'The primary was killed, and a guest or host function blocked a [serving process](../operate/processes.md), which is killed.',
  remedy: 'Set `stallMs` or a deadline (`--timeout`).',
})

export const ProcessesNotSharedError = failure({
  code: 'WASM_SERVE_PROCESSES_NOT_SHARED',
  site: 'command',
  isMistake: true,
  message: 'Route %s uses %s, which serving processes cannot share: %s',
  cause:
    'With [serving processes](../operate/processes.md), guests cannot use `vars: shared` or the store `memory:`.',
  remedy: 'Set `store` to `lmdb:FOLDER` or `redis://HOST`, and `vars` to `own`; or remove `--processes`.',
})

export const ProcessesFailingError = failure({
  code: 'WASM_SERVE_PROCESSES_FAILING',
  site: 'log',
  message: '%d starts of serving processes have failed in a row; the next attempt follows in %d ms',
  cause:
    'Five starts of [serving processes](../operate/processes.md) failed in a row. If none serves, the server exits with 75.',
  remedy: 'Read the reason in the log.',
})
