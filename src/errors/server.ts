import { failure } from './failure.ts'

/* Why a server does not serve its routes, or does not listen. */

/** Two routes answer the same method, URL and host. */
export const RouteConflictError = failure<[method: string, url: string]>(
  'WASM_SERVE_ROUTE_CONFLICT',
  'Two routes answer %s %s: give one of them another "url", "method" or "host"',
)

/** A route's URL is not one that Fastify understands, or the app that it is mounted into has it already. */
export const RouteInvalidError = failure<[url: string, reason: string]>(
  'WASM_SERVE_ROUTE_INVALID',
  'The route %s cannot be added: %s',
)

/** A route's smoke request was not answered as it should be: what was to go live does not. */
export const SmokeFailedError = failure<[route: string, reason: string]>(
  'WASM_SERVE_SMOKE_FAILED',
  'The smoke request of route %s failed: %s',
)

/** Many threads are stuck in native calls, which only the end of the process ends. Logged, never thrown. */
export const ProcessStuckError = failure<[threads: number]>(
  'WASM_SERVE_PROCESS_STUCK',
  '%d threads are in native calls and cannot be ended: the process has to be started again',
)

/** The address cannot be listened on. */
export const ListenError = failure<[address: string, reason: string]>(
  'WASM_SERVE_LISTEN_FAILED',
  'Cannot listen on %s: %s',
)

/** A certificate or key of the server cannot be used. */
export const TlsInvalidError = failure<[file: string, reason: string]>(
  'WASM_SERVE_TLS_INVALID',
  'TLS file %s cannot be used: %s',
)

/** A key that tokens are verified with cannot be used. */
export const JwtKeyInvalidError = failure<[file: string, reason: string]>(
  'WASM_SERVE_JWT_KEY_INVALID',
  'JWT key %s cannot be used: %s',
)

/** A folder of the option `static` cannot be served. */
export const StaticFolderError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATIC_FOLDER_INVALID',
  'The folder %s cannot be served: %s (static)',
)
