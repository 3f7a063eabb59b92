import { failure } from './failure.ts'

/*
 * Every failure that wasm-serve causes, with the HTTP status a client sees when a request meets it.
 * Codes are spelled out so that grep finds them; they are never renamed or reused.
 */

// What a user asked for and cannot have: met before anything listens.

/** The command line or an environment variable cannot be understood. The command exits with 2. */
export const UsageError = failure<[problem: string]>('WASM_SERVE_USAGE_INVALID', '%s')

/** One or more options are wrong; the message lists all of them. */
export const OptionsError = failure<[problems: string]>('WASM_SERVE_OPTIONS_INVALID', 'Invalid options:\n%s')

/** The config file cannot be read: there is none, it is too large, it is not UTF-8, or there are several. */
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

/** `wasm-serve check` found something, or a start several things; the message lists all. The command exits with 2. */
export const CheckFailedError = failure<[problems: string]>('WASM_SERVE_CHECK_FAILED', '%s')

/** A folder for a new project cannot be had: it has files, it is none, or it cannot be written. */
export const ProjectNotMadeError = failure<[name: string, reason: string]>(
  'WASM_SERVE_PROJECT_NOT_MADE',
  'No project was made in %s: %s',
)

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

/** What is served cannot be changed now. */
export const ChangeRefusedError = failure<[reason: string]>(
  'WASM_SERVE_CHANGE_REFUSED',
  'Nothing was changed: %s',
  503,
)

/** What was asked of the admin API cannot be understood. */
export const AdminRequestError = failure<[problem: string]>('WASM_SERVE_ADMIN_REQUEST_INVALID', '%s', 400)

/** The admin API does not do this: it would open this machine to who holds the token. */
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

/** What is there does not allow this change. */
export const AdminConflictError = failure<[problem: string]>('WASM_SERVE_ADMIN_CONFLICT', '%s', 409)

/** Something else was changed since: `If-Match` names another revision. */
export const RevisionMismatchError = failure<[wanted: string, revision: string]>(
  'WASM_SERVE_REVISION_MISMATCH',
  'If-Match asks for %s, and this is revision %s: look at what has changed, and ask again',
  412,
)

/** What the state folder holds is not what was written. */
export const StateInvalidError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATE_INVALID',
  'State folder %s cannot be used: %s. Put it right, or move it away to start from the configuration alone',
)

/** The state folder cannot be written: the change is not made. */
export const StateUnwritableError = failure<[folder: string, reason: string]>(
  'WASM_SERVE_STATE_UNWRITABLE',
  'State folder %s cannot be written, so nothing was changed: %s',
  507,
)

/** Files go on changing while they are read: nothing of them is served. */
export const FilesUnsettledError = failure<[limitMs: number, files: string]>(
  'WASM_SERVE_FILES_UNSETTLED',
  'Files still change after %d ms, so nothing of them is served: %s',
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

// What can happen to a store.

/** What names the store is no URL of a store, or the store cannot be opened. */
export const StoreInvalidError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_INVALID',
  'Store %s cannot be used: %s',
)

/** The store gave no answer in time, or cannot be reached. A write may have happened all the same. */
export const StoreUnavailableError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_UNAVAILABLE',
  'Store %s cannot be reached: %s',
  503,
)

/** The store has no room for the value; what was there stays. */
export const StoreFullError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_FULL',
  'Store %s is full: %s',
  503,
)

/** A key, namespace, time to live, limit or cursor that no store takes. */
export const KvArgumentInvalidError = failure<[problem: string]>(
  'WASM_SERVE_KV_ARGUMENT_INVALID',
  'A store cannot do this: %s',
)

/** The value is larger than a store takes. */
export const KvValueTooLargeError = failure<[bytes: number, limit: number]>(
  'WASM_SERVE_KV_VALUE_TOO_LARGE',
  'A value of %d bytes is larger than the %d bytes that a store takes',
)

/** The plug-in writes and may only read. */
export const KvReadOnlyError = failure<[namespace: string]>(
  'WASM_SERVE_KV_READ_ONLY',
  'The namespace %s may only be read (kv.access, --kv-access readwrite, allows more)',
)

/** The file that a guest is to get as its input cannot be read. */
export const InputUnreadableError = failure<[path: string, reason: string]>(
  'WASM_SERVE_INPUT_UNREADABLE',
  'Cannot read the input %s: %s',
)

/** A package that only some need, and that does not come with this one, is not installed. */
export const PackageMissingError = failure<[name: string, purpose: string, remedy: string]>(
  'WASM_SERVE_PACKAGE_MISSING',
  'The package %s, which %s needs, is not installed: %s',
)

/** The server of a bench did not start, or did not answer as it should before the load began. */
export const BenchServerError = failure<[flags: string, reason: string]>(
  'WASM_SERVE_BENCH_SERVER_FAILED',
  'The server to measure (%s) cannot be measured: %s',
)

/** Under load, some answers were wrong, failed or did not come. */
export const BenchAnswersError = failure<[problems: string]>(
  'WASM_SERVE_BENCH_ANSWERS_WRONG',
  'Not all answers were right: %s',
)

// What can happen to a call.

/**
 * For hooks of the user: thrown by `onCall`, it refuses the call, and the client is told its message. Another
 * `statusCode` can be set.
 */
export const CallRefusedError = failure<[reason: string]>('WASM_SERVE_CALL_REFUSED', '%s', 403)

/** The guest said no: it set an error or returned non-zero. The message is the guest's own. */
export const GuestError = failure<[message: string]>('WASM_SERVE_GUEST_ERROR', '%s', 409)

/** The guest trapped: its instance is replaced. `cause` holds the engine's reason and the guest's stack. */
export const GuestTrapError = failure<[exportName: string]>(
  'WASM_SERVE_GUEST_TRAP',
  'The guest function "%s" trapped; its instance was replaced',
)

/** A host function could not do what the guest asked for: a store that is full or cannot be reached. `cause` says more. */
export const HostUnavailableError = failure<[exportName: string]>(
  'WASM_SERVE_HOST_UNAVAILABLE',
  'Something that the guest function "%s" needs is out of order: try again later',
  503,
)

/** The guest ended its program with WASI's `proc_exit`: its instance is replaced. */
export const GuestExitError = failure<[exportName: string]>(
  'WASM_SERVE_GUEST_EXIT',
  'The guest function "%s" ended its program (proc_exit); its instance was replaced',
)

/** The guest produced more than the route's `outputLimit` allows: its instance is replaced. */
export const OutputTooLargeError = failure<[exportName: string, bytes: number, limit: number]>(
  'WASM_SERVE_OUTPUT_TOO_LARGE',
  'The guest function "%s" produced %d bytes, more than the outputLimit of %d',
  502,
)

/** What the guest produced is no answer of the route's contract; the message names the field, not what is in it. */
export const ContractBrokenError = failure<[contract: string, problem: string]>(
  'WASM_SERVE_CONTRACT_BROKEN',
  'The guest broke the %s contract: %s',
  502,
)

/** {@link ContractBrokenError} for the `simplism` contract, where it is a 500. */
export const SimplismBrokenError = failure<[problem: string]>(
  'WASM_SERVE_SIMPLISM_BROKEN',
  'The guest broke the simplism contract: %s',
)

/** The instance is running a call: a host function called the instance that it was called by. */
export const InstanceBusyError = failure<[plugin: string]>(
  'WASM_SERVE_INSTANCE_BUSY',
  'An instance of plug-in %s is running a call, and runs one at a time',
)

/** A guest on the event loop did not come back: the watchdog logs this and kills the process. Never thrown. */
export const GuestStallError = failure<[what: string, stallMs: number]>(
  'WASM_SERVE_GUEST_STALL',
  '%s held the event loop for more than %d ms (stallMs): the process is killed, to be started again',
)

/** As many calls wait for the route's instances as `maxQueue` or `maxQueueBytes` allows. */
export const QueueFullError = failure<[limit: string]>(
  'WASM_SERVE_QUEUE_FULL',
  'As much waits for this route as may, %s: try again later',
  503,
)

/** A call would have to wait for an instance longer than the route's `maxWaitMs`, or has waited so long. */
export const QueueSlowError = failure<[maxWaitMs: number]>(
  'WASM_SERVE_QUEUE_SLOW',
  'This route is too busy to begin the call within %d ms (maxWaitMs): try again later',
  503,
)

/** The guest ran longer than the route's `timeoutMs`: it was ended with its thread. */
export const DeadlineError = failure<[exportName: string, timeoutMs: number]>(
  'WASM_SERVE_DEADLINE_EXCEEDED',
  'The guest function "%s" ran longer than the timeout of %d ms, and was ended',
  504,
)

/** The thread that ran the guest ended: out of memory, `process.exit` in a host function. `cause` says why. */
export const WorkerLostError = failure<[exportName: string]>(
  'WASM_SERVE_WORKER_LOST',
  'The thread that ran the guest function "%s" ended; it was replaced',
)

/** The route's instances could not be started again and again; it is tried again from time to time. */
export const BreakerOpenError = failure<[starts: number, reason: string]>(
  'WASM_SERVE_BREAKER_OPEN',
  'This route is out of order: %d starts in a row failed (%s)',
  503,
)

/** The client went away before its call was begun: the guest was not run. Only the log sees this. (499: nginx's) */
export const ClientGoneError = failure<[]>(
  'WASM_SERVE_CLIENT_GONE',
  'The client went away before the call was begun',
  499,
)

/** The server ended before the guest did: it waited for `graceMs`, and then ended the guest with its thread. */
export const ShuttingDownError = failure<[exportName: string]>(
  'WASM_SERVE_SHUTTING_DOWN',
  'The server was shutting down and did not wait longer for the guest function "%s", which was ended (graceMs)',
  503,
)

/** The route is being closed and takes no more calls. */
export const EngineClosedError = failure<[]>(
  'WASM_SERVE_ENGINE_CLOSED',
  'This route is being closed: try again later',
  503,
)

// What can happen to an HTTP request of a guest.

/** What the guest handed over is no request that can be sent: no JSON, no URL, a header that is none. */
export const OutboundRequestInvalidError = failure<[problem: string]>(
  'WASM_SERVE_OUTBOUND_REQUEST_INVALID',
  "The guest's HTTP request is not valid: %s",
  502,
)

/** The guest may not go there: host, scheme or address are not allowed, of the URL or of one it is redirected to. */
export const OutboundRefusedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_OUTBOUND_REFUSED',
  "The guest's HTTP request to %s is refused: %s",
  502,
)

/** The answer was not complete when the time of the request, redirects included, was up. */
export const OutboundTimeoutError = failure<[url: string, timeoutMs: number]>(
  'WASM_SERVE_OUTBOUND_TIMEOUT',
  "The guest's HTTP request to %s was not answered within %d ms",
  504,
)

/** The answer is larger than is allowed; it was cut off. */
export const OutboundTooLargeError = failure<[url: string, maxBytes: number]>(
  'WASM_SERVE_OUTBOUND_TOO_LARGE',
  "The answer to the guest's HTTP request to %s is larger than the httpResponseMax of %d bytes",
  502,
)

/** No server can be reached or trusted, it broke off, or it redirects too often. */
export const OutboundFailedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_OUTBOUND_FAILED',
  "The guest's HTTP request to %s failed: %s",
  502,
)

// What can be wrong with a request.

/** The request has no key, or none that the server knows. */
export const ApiKeyRefusedError = failure<[]>(
  'WASM_SERVE_API_KEY_REFUSED',
  'This server needs an API key, as Authorization: Bearer KEY or as x-api-key',
  401,
)

/** The request has no token, or one that was not signed for this server, or no longer. */
export const TokenRefusedError = failure<[reason: string]>(
  'WASM_SERVE_TOKEN_REFUSED',
  'This server needs a JSON Web Token, as Authorization: Bearer TOKEN: %s',
  401,
)

/** A request to the admin listener without its token. */
export const AdminTokenRefusedError = failure<[]>(
  'WASM_SERVE_ADMIN_TOKEN_REFUSED',
  'The admin listener needs its token, as Authorization: Bearer TOKEN',
  401,
)

/** A request to the admin listener by a name that is none of its own, or by a page of another origin. */
export const AdminOriginRefusedError = failure<[problem: string]>(
  'WASM_SERVE_ADMIN_ORIGIN_REFUSED',
  'The admin listener refuses this request: %s',
  403,
)

export const RouteNotFoundError = failure<[method: string, url: string]>(
  'WASM_SERVE_ROUTE_NOT_FOUND',
  'No route answers %s %s',
  404,
)

export const MethodNotAllowedError = failure<[method: string, allowed: string]>(
  'WASM_SERVE_METHOD_NOT_ALLOWED',
  'This route does not answer %s, only %s',
  405,
)

export const RequestTimeoutError = failure<[]>(
  'WASM_SERVE_REQUEST_TIMEOUT',
  'The request took too long to arrive',
  408,
)

/** The client has sent too many requests; `Retry-After` says when to try again. */
export const RateLimitedError = failure<[max: number, timeWindowMs: number]>(
  'WASM_SERVE_RATE_LIMITED',
  'More than %d requests within %d ms',
  429,
)

export const BodyTooLargeError = failure<[limit: string]>(
  'WASM_SERVE_BODY_TOO_LARGE',
  'The request body is larger than %s',
  413,
)

export const HeadersTooLargeError = failure<[]>(
  'WASM_SERVE_HEADERS_TOO_LARGE',
  'The request line and headers are larger than 16 KiB',
  431,
)

export const BadRequestError = failure<[problem: string]>(
  'WASM_SERVE_BAD_REQUEST',
  'The request is malformed: %s',
  400,
)

/** Something broke that no other class names: a bug. */
export const InternalError = failure<[]>('WASM_SERVE_INTERNAL_ERROR', 'Something went wrong on the server')
