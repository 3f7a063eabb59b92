import { failure } from './failure.ts'

/* Why what is served is not changed, and what the admin listener refuses. */

/** What is served cannot be changed now. */
export const ChangeRefusedError = failure<[reason: string]>(
  'WASM_SERVE_CHANGE_REFUSED',
  'Nothing was changed: %s',
  503,
)

/** What was asked of the admin API cannot be understood. */
export const AdminRequestError = failure<[problem: string]>('WASM_SERVE_ADMIN_REQUEST_INVALID', '%s', 400)

/** Other requests to the admin API hold the memory that there is for bodies and downloads; `Retry-After` says when to try again. */
export const AdminBusyError = failure<[limit: number]>(
  'WASM_SERVE_ADMIN_BUSY',
  'Uploads and downloads of other requests hold the %d bytes that there are for all (4 times uploadLimit): try again',
  503,
)

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

/** Other users could change what the state folder holds. */
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

/** Files go on changing while they are read: nothing of them is served. */
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

/** A request to the admin listener by a name that is none of its own, or by a page of another origin. */
export const AdminOriginRefusedError = failure<[problem: string]>(
  'WASM_SERVE_ADMIN_ORIGIN_REFUSED',
  'The admin listener refuses this request: %s',
  403,
)
