import { failure } from './failure.ts'

/* Failures to start a server: its routes, its listener, its serving processes. */

export const RouteConflictError = failure({
  code: 'WASM_SERVE_ROUTE_CONFLICT',
  site: 'command',
  isMistake: true,
  message: 'Two routes answer %s %s: give one of them another "url", "method" or "host"',
  cause: 'Two routes have the same method, URL and host.',
  remedy: 'Give one of the routes another `method`, `url` or `host`.',
})

export const RouteInvalidError = failure({
  code: 'WASM_SERVE_ROUTE_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The route %s cannot be added: %s',
  cause: 'The URL is not valid for a route, or the app has a route there.',
  remedy: 'Correct the URL, or remove the route that the app has already.',
})

export const SmokeFailedError = failure({
  code: 'WASM_SERVE_SMOKE_FAILED',
  site: 'command',
  message: 'The smoke request of route %s failed: %s',
  cause: 'The `smoke` request of a route had another answer than the route expects.',
  remedy: 'Read the message: it has the status and the answer. Correct the plug-in or the `smoke` request.',
})

export const ProcessStuckError = failure({
  code: 'WASM_SERVE_PROCESS_STUCK',
  site: 'log',
  message: '%d threads are stuck in native calls and cannot be terminated: restart the process',
  cause: 'Four threads cannot be ended: the process drains and ends with 75, to be started again.',
  remedy:
    'Let a supervisor restart the process. Run the plug-ins that the log names with `--engine subprocess`.',
})

export const ListenError = failure({
  code: 'WASM_SERVE_LISTEN_FAILED',
  site: 'command',
  message: 'Cannot listen on %s: %s',
  cause: 'The address is in use, not permitted, or not an address of this machine.',
  remedy: 'Choose another `--port` or `--host`, or end the process that has the address.',
})

export const TlsInvalidError = failure({
  code: 'WASM_SERVE_TLS_INVALID',
  site: 'command',
  isMistake: true,
  message: 'TLS file %s cannot be used: %s',
  cause: 'A file of `tls` cannot be read, is not PEM, or the key does not belong to the certificate.',
  remedy: 'Name a PEM file of a certificate chain, and the key that belongs to it.',
})

export const JwtKeyInvalidError = failure({
  code: 'WASM_SERVE_JWT_KEY_INVALID',
  site: 'command',
  isMistake: true,
  message: 'JWT key %s cannot be used: %s',
  cause: 'A file of `jwt` cannot be read, is not a key, or is for other algorithms.',
  remedy: 'Name a PEM, JWK or JWKS file with keys of the algorithms that are allowed.',
})

export const StaticFolderError = failure({
  code: 'WASM_SERVE_STATIC_FOLDER_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The static folder %s cannot be served: %s',
  cause: 'A folder of `static` does not exist, is not a folder or cannot be opened.',
  remedy: 'Name a folder that the server can read.',
})

export const ProcessSilentError = failure({
  code: 'WASM_SERVE_PROCESS_SILENT',
  status: 503,
  message: 'Serving process %d is silent',
  cause:
    'A [serving process](../operate/processes.md) was stopped, or did not turn its event loop for five seconds, while it had a call of the admin API.',
  remedy: 'Repeat the call: another process gets it. `/api/processes` says which process is silent.',
})

export const ProcessEndedError = failure({
  code: 'WASM_SERVE_PROCESS_ENDED',
  status: 503,
  message: 'Serving process %d ended (%s)',
  cause:
    'A [serving process](../operate/processes.md) ended while it prepared a change, or was killed because it was silent. Nothing was changed.',
  remedy:
    'Repeat the change. If it fails again, read the log: the new plug-in may need too much memory, or hold the event loop.',
})

export const PrimaryGoneError = failure({
  code: 'WASM_SERVE_PRIMARY_GONE',
  site: 'log',
  message:
    'The primary has been gone for %d ms, and something holds the event loop: the serving process is killed',
  cause:
    'The primary of a [serving process](../operate/processes.md) was killed, and a guest or a host function held the event loop for longer than a drain takes. The process is killed, and this is its last log line.',
  remedy: 'Set `stallMs` or a deadline (`--timeout`), so that no guest holds the event loop.',
})

export const ProcessesNotSharedError = failure({
  code: 'WASM_SERVE_PROCESSES_NOT_SHARED',
  site: 'command',
  isMistake: true,
  message: 'Route %s uses %s, which serving processes cannot share: %s',
  cause:
    'Guests would keep data in the memory of one [serving process](../operate/processes.md): `vars: shared`, or the store `memory:`.',
  remedy:
    'Set `store` to `lmdb:FOLDER` or `redis://HOST`, and `vars` to `own`; or serve without `--processes`.',
})

export const ProcessesFailingError = failure({
  code: 'WASM_SERVE_PROCESSES_FAILING',
  site: 'log',
  message: '%d starts of serving processes have failed in a row; the next attempt follows in %d ms',
  cause:
    'Five starts of [serving processes](../operate/processes.md) failed in a row. Later attempts are rarer. If none serves, the server ends with 75.',
  remedy: 'Read the log: it has the reason of each failed start.',
})
