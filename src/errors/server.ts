import { failure } from './failure.ts'

/* A server that does not start or does not change: its routes, its listener, its options, the admin API. */

/* Routes and listeners. */

/** Two routes answer the same method, URL and host. */
export const RouteConflictError = failure<[method: string, url: string]>(
  'WASM_SERVE_ROUTE_CONFLICT',
  'Two routes answer %s %s: give one of them another "url", "method" or "host"',
)

/** Fastify refuses a route's URL, or the app that it is mounted into has that URL already. */
export const RouteInvalidError = failure<[url: string, reason: string]>(
  'WASM_SERVE_ROUTE_INVALID',
  'The route %s cannot be added: %s',
)

/** A route's smoke request got another answer than expected: the change does not go live. */
export const SmokeFailedError = failure<[route: string, reason: string]>(
  'WASM_SERVE_SMOKE_FAILED',
  'The smoke request of route %s failed: %s',
)

/** Too many threads are stuck in native calls, which end with the process only. Logged, never thrown. */
export const ProcessStuckError = failure<[threads: number]>(
  'WASM_SERVE_PROCESS_STUCK',
  '%d threads are in native calls and cannot be ended: the process has to be started again',
)

/** The server cannot listen on the address. */
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

/* The command line, options and configuration. */

/** The command line or an environment variable cannot be understood. The command exits with 2. */
export const UsageError = failure<[problem: string]>('WASM_SERVE_USAGE_INVALID', '%s')

/** One or more options are wrong; the message lists all of them. */
export const OptionsError = failure<[problems: string]>('WASM_SERVE_OPTIONS_INVALID', 'Invalid options:\n%s')

/** The config file cannot be read: it is missing, too large, not UTF-8, or there are several. */
export const ConfigUnreadableError = failure<[file: string, reason: string]>(
  'WASM_SERVE_CONFIG_UNREADABLE',
  'Cannot read config file %s: %s',
)

/** The config file is wrong; the message lists every problem with line and column. */
export const ConfigInvalidError = failure<[file: string, problems: string]>(
  'WASM_SERVE_CONFIG_INVALID',
  'Config file %s is not valid:\n%s',
)

/** Several plug-ins or routes would have the same URL; the message lists all of them. */
export const MountConflictError = failure<[conflicts: string]>(
  'WASM_SERVE_MOUNT_CONFLICT',
  'Several routes have the same URL:\n%s',
)

/** `wasm-serve check` found a problem, or a start several; the message lists all. The command exits with 2. */
export const CheckFailedError = failure<[problems: string]>('WASM_SERVE_CHECK_FAILED', '%s')

/** The folder for a new project cannot be used: it is not empty, not a folder, or cannot be written. */
export const ProjectNotMadeError = failure<[name: string, reason: string]>(
  'WASM_SERVE_PROJECT_NOT_MADE',
  'No project was made in %s: %s',
)

/** The file with a guest's input cannot be read. */
export const InputUnreadableError = failure<[path: string, reason: string]>(
  'WASM_SERVE_INPUT_UNREADABLE',
  'Cannot read the input %s: %s',
)

/** The file for the result of a command cannot be written. */
export const OutputUnwritableError = failure<[path: string, reason: string]>(
  'WASM_SERVE_OUTPUT_UNWRITABLE',
  'Cannot write %s: %s',
)

/** An optional package that a feature needs is not installed. */
export const PackageMissingError = failure<[name: string, purpose: string, remedy: string]>(
  'WASM_SERVE_PACKAGE_MISSING',
  'The package %s, which %s needs, is not installed: %s',
)

/** The server of a bench did not start, or gave a wrong answer before the load began. */
export const BenchServerError = failure<[flags: string, reason: string]>(
  'WASM_SERVE_BENCH_SERVER_FAILED',
  'The server to measure (%s) cannot be measured: %s',
)

/** Under load, some answers were wrong, failed or did not come. */
export const BenchAnswersError = failure<[problems: string]>(
  'WASM_SERVE_BENCH_ANSWERS_WRONG',
  'Not all answers were right: %s',
)

/* Changes, and the admin listener. */

/** The server accepts no change now. */
export const ChangeRefusedError = failure<[reason: string]>(
  'WASM_SERVE_CHANGE_REFUSED',
  'Nothing was changed: %s',
  503,
)

/** A request to the admin API is not valid. */
export const AdminRequestError = failure<[problem: string]>('WASM_SERVE_ADMIN_REQUEST_INVALID', '%s', 400)

/** Other requests to the admin API use all memory for bodies and downloads; `Retry-After` says when to try again. */
export const AdminBusyError = failure<[limit: number]>(
  'WASM_SERVE_ADMIN_BUSY',
  'Uploads and downloads of other requests hold the %d bytes that there are for all (4 times uploadLimit): try again',
  503,
)

/** The admin API does not offer this: it would open this machine to every holder of the token. */
export const AdminForbiddenError = failure<[what: string]>(
  'WASM_SERVE_ADMIN_FORBIDDEN',
  '%s can be set in the configuration only, not by the admin API',
  403,
)

/** There is no plug-in, version or route of this name. */
export const AdminUnknownError = failure<[what: string, name: string]>(
  'WASM_SERVE_ADMIN_UNKNOWN',
  'There is no %s "%s"',
  404,
)

/** The present state does not allow this change. */
export const AdminConflictError = failure<[problem: string]>('WASM_SERVE_ADMIN_CONFLICT', '%s', 409)

/** `If-Match` names another revision: another change came between. */
export const RevisionMismatchError = failure<[wanted: string, revision: string]>(
  'WASM_SERVE_REVISION_MISMATCH',
  'If-Match asks for %s, and this is revision %s: look at what has changed, and ask again',
  412,
)

/** The content of the state folder is damaged. */
export const StateInvalidError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATE_INVALID',
  'State folder %s cannot be used: %s. Put it right, or move it away to start from the configuration alone',
)

/** Other users could change the content of the state folder. */
export const StateUntrustedError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATE_UNTRUSTED',
  'State folder %s is not for this user alone: %s',
)

/** The state folder cannot be written: the change is not made. */
export const StateUnwritableError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATE_UNWRITABLE',
  'State folder %s cannot be written, so nothing was changed: %s',
  507,
)

/** Files keep changing while they are read: none of them is served. */
export const FilesUnsettledError = failure<[limitMs: number, files: string]>(
  'WASM_SERVE_FILES_UNSETTLED',
  'Files still change after %d ms, so nothing of them is served: %s',
)

/** A request to the admin listener without its token. */
export const AdminTokenRefusedError = failure<[]>(
  'WASM_SERVE_ADMIN_TOKEN_REFUSED',
  'The admin listener needs its token, as Authorization: Bearer TOKEN',
  401,
)

/** A request to the admin listener under a foreign host name, or from a page of another origin. */
export const AdminOriginRefusedError = failure<[problem: string]>(
  'WASM_SERVE_ADMIN_ORIGIN_REFUSED',
  'The admin listener refuses this request: %s',
  403,
)
