import { failure } from './failure.ts'

/* Failures to start or change a server: its routes, its listener, its options, the admin API. */

/* Routes and listeners. */

/** Two routes answer the same method, URL and host. */
export const RouteConflictError = failure<[method: string, url: string]>(
  'WASM_SERVE_ROUTE_CONFLICT',
  'Two routes answer %s %s: give one of them another "url", "method" or "host"',
)

/** Fastify refuses the route's URL, or the host app already has a route there. */
export const RouteInvalidError = failure<[url: string, reason: string]>(
  'WASM_SERVE_ROUTE_INVALID',
  'The route %s cannot be added: %s',
)

/** A route's smoke request got an unexpected answer: the change does not go live. */
export const SmokeFailedError = failure<[route: string, reason: string]>(
  'WASM_SERVE_SMOKE_FAILED',
  'The smoke request of route %s failed: %s',
)

/** Too many threads are stuck in native calls; only the end of the process ends them. Logged, never thrown. */
export const ProcessStuckError = failure<[threads: number]>(
  'WASM_SERVE_PROCESS_STUCK',
  '%d threads are stuck in native calls and cannot be terminated: restart the process',
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

/** A key for verifying tokens cannot be used. */
export const JwtKeyInvalidError = failure<[file: string, reason: string]>(
  'WASM_SERVE_JWT_KEY_INVALID',
  'JWT key %s cannot be used: %s',
)

/** A folder of the option `static` cannot be served. */
export const StaticFolderError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATIC_FOLDER_INVALID',
  'The static folder %s cannot be served: %s',
)

/* Serving processes. */

/** A serving process ended before it had answered the primary. */
export const ProcessEndedError = failure<[number: number, how: string]>(
  'WASM_SERVE_PROCESS_ENDED',
  'Serving process %d ended (%s)',
  503,
)

/** A serving process lives on without its primary. Logged, never thrown. */
export const PrimaryGoneError = failure<[limitMs: number]>(
  'WASM_SERVE_PRIMARY_GONE',
  'The primary has been gone for %d ms, and something holds the event loop: the serving process is killed',
)

/** Guests of a route keep something in memory that processes cannot share. */
export const ProcessesNotSharedError = failure<[route: string, what: string, remedy: string]>(
  'WASM_SERVE_PROCESSES_NOT_SHARED',
  'Route %s uses %s, which serving processes cannot share: %s',
)

/** Serving processes fail to start again and again. Logged, never thrown. */
export const ProcessesFailingError = failure<[failures: number, retryMs: number]>(
  'WASM_SERVE_PROCESSES_FAILING',
  '%d starts of serving processes have failed in a row; the next attempt follows in %d ms',
)

/* The command line, options and configuration. */

/** The command line or an environment variable cannot be understood. The command exits with 2. */
export const UsageError = failure<[problem: string]>('WASM_SERVE_USAGE_INVALID', '%s')

/** One or more options are invalid; the message lists all of them. */
export const OptionsError = failure<[problems: string]>('WASM_SERVE_OPTIONS_INVALID', 'Invalid options:\n%s')

/** The config file cannot be read: it is missing, too large or not UTF-8, or there are several. */
export const ConfigUnreadableError = failure<[file: string, reason: string]>(
  'WASM_SERVE_CONFIG_UNREADABLE',
  'Cannot read config file %s: %s',
)

/** The config file is invalid; the message lists every problem with line and column. */
export const ConfigInvalidError = failure<[file: string, problems: string]>(
  'WASM_SERVE_CONFIG_INVALID',
  'Config file %s is not valid:\n%s',
)

/** Several plug-ins or routes would have the same URL; the message lists all of them. */
export const MountConflictError = failure<[conflicts: string]>(
  'WASM_SERVE_MOUNT_CONFLICT',
  'Several routes have the same URL:\n%s',
)

/** Two different plug-ins have the same name, by which their state, logs and metrics are kept. */
export const PluginNameSharedError = failure<[name: string, one: string, other: string]>(
  'WASM_SERVE_PLUGIN_NAME_SHARED',
  'Two different plug-ins have the name "%s", of %s and of %s: give each a name under "plugins" of a config file, or by loadPlugin',
)

/** `wasm-serve check` found a problem, or a start found several; the message lists all. The command exits with 2. */
export const CheckFailedError = failure<[problems: string]>('WASM_SERVE_CHECK_FAILED', '%s', 500, false)

/** The folder for a new project cannot be used: it is not empty, not a folder, or not writable. */
export const ProjectNotMadeError = failure<[name: string, reason: string]>(
  'WASM_SERVE_PROJECT_NOT_MADE',
  'No project was created in %s: %s',
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

/** The server under test did not start, or gave a wrong answer before the load began. */
export const BenchServerError = failure<[flags: string, reason: string]>(
  'WASM_SERVE_BENCH_SERVER_FAILED',
  'The server under test (%s) cannot be measured: %s',
)

/** Under load, some answers were wrong, failed or missing. */
export const BenchAnswersError = failure<[problems: string]>(
  'WASM_SERVE_BENCH_ANSWERS_WRONG',
  'Not all answers were correct: %s',
)

/* Changes, and the admin listener. */

/** The server currently accepts no changes. */
export const ChangeRefusedError = failure<[reason: string]>(
  'WASM_SERVE_CHANGE_REFUSED',
  'Nothing was changed: %s',
  503,
)

/** A request to the admin API is not valid. */
export const AdminRequestError = failure<[problem: string]>('WASM_SERVE_ADMIN_REQUEST_INVALID', '%s', 400)

/** Other admin requests hold all memory for bodies and downloads; `Retry-After` says when to retry. */
export const AdminBusyError = failure<[limit: number]>(
  'WASM_SERVE_ADMIN_BUSY',
  'Other uploads and downloads hold all %d bytes available for them (4 times uploadLimit): try again later',
  503,
)

/** Not available in the admin API, because it would expose the machine to every holder of the token. */
export const AdminForbiddenError = failure<[setting: string]>(
  'WASM_SERVE_ADMIN_FORBIDDEN',
  '%s can be set only in the configuration, not through the admin API',
  403,
)

/** No plug-in, version or route has this name. */
export const AdminUnknownError = failure<[kind: string, name: string]>(
  'WASM_SERVE_ADMIN_UNKNOWN',
  'There is no %s "%s"',
  404,
)

/** The current state does not allow this change. */
export const AdminConflictError = failure<[problem: string]>('WASM_SERVE_ADMIN_CONFLICT', '%s', 409)

/** `If-Match` names an outdated revision: another change came first. */
export const RevisionMismatchError = failure<[expected: string, revision: string]>(
  'WASM_SERVE_REVISION_MISMATCH',
  'If-Match expects revision %s, but the current revision is %s: read the current state and try again',
  412,
)

/** The content of the state folder is damaged. */
export const StateInvalidError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATE_INVALID',
  'State folder %s cannot be used: %s. Repair it, or move it away to start from the configuration alone',
)

/** Other users could change the content of the state folder. */
export const StateUntrustedError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATE_UNTRUSTED',
  'State folder %s is not private to this user: %s',
)

/** The state folder cannot be written: the change was not made. */
export const StateUnwritableError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATE_UNWRITABLE',
  'State folder %s cannot be written, so nothing was changed: %s',
  507,
)

/** Files keep changing while they are read: the new content is not served. */
export const FilesUnsettledError = failure<[limitMs: number, files: string]>(
  'WASM_SERVE_FILES_UNSETTLED',
  'Files are still changing after %d ms, so their new content is not served: %s',
)

/** A request to the admin listener without the valid token. */
export const AdminTokenRefusedError = failure<[]>(
  'WASM_SERVE_ADMIN_TOKEN_REFUSED',
  'The admin listener needs the admin token, as Authorization: Bearer TOKEN',
  401,
)

/** A request to the admin listener with a foreign host name, or from a page of another origin. */
export const AdminOriginRefusedError = failure<[problem: string]>(
  'WASM_SERVE_ADMIN_ORIGIN_REFUSED',
  'The admin listener refuses this request: %s',
  403,
)
