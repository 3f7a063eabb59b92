import { failure } from './failure.ts'

/* Failures of changes, and of requests to the admin listener. */

export const ChangeRefusedError = failure({
  code: 'WASM_SERVE_CHANGE_REFUSED',
  status: 503,
  message: 'Nothing was changed: %s',
  cause: 'The server is shutting down, or none of its [serving processes](../operate/processes.md) runs.',
  remedy: 'Retry when a process serves again.',
})

export const ServerStartingError = failure({
  code: 'WASM_SERVE_STARTING',
  status: 503,
  message: 'The server is starting and has no routes yet: try again when /readyz answers 200',
  cause: 'The server loads its first plug-ins. The admin API shows and changes them afterwards.',
  remedy: 'Repeat the request after the seconds in `Retry-After`.',
})

export const AdminRequestError = failure({
  code: 'WASM_SERVE_ADMIN_REQUEST_INVALID',
  status: 400,
  message: '%s',
  cause: 'The [admin API](../operate/admin-api.md) cannot parse the request.',
  remedy: 'Correct the field that the detail names.',
})

export const AdminBusyError = failure({
  code: 'WASM_SERVE_ADMIN_BUSY',
  status: 503,
  message:
    'Other uploads and downloads hold all %d bytes available for them (4 times uploadLimit): try again later',
  cause: 'Other uploads and downloads hold 4 times `uploadLimit`.',
  remedy: 'Retry after `Retry-After` seconds, or upload fewer modules at a time.',
})

export const AdminForbiddenError = failure({
  code: 'WASM_SERVE_ADMIN_FORBIDDEN',
  status: 403,
  message: '%s can be set only in the configuration, not through the admin API',
  cause: 'The admin API cannot set files or code of the machine.',
  remedy: 'Set it in the configuration.',
})

export const AdminUnknownError = failure({
  code: 'WASM_SERVE_ADMIN_UNKNOWN',
  status: 404,
  message: 'There is no %s "%s"%s',
  cause: 'No such plug-in, version or route exists.',
  remedy: 'List them: `GET /api/plugins`, `GET /api/routes`.',
})

export const AdminConflictError = failure({
  code: 'WASM_SERVE_ADMIN_CONFLICT',
  status: 409,
  message: '%s',
  cause: 'The change conflicts with the current state.',
  remedy: 'Resolve the conflict that the detail names.',
})

export const RevisionMismatchError = failure({
  code: 'WASM_SERVE_REVISION_MISMATCH',
  status: 412,
  message:
    'If-Match expects revision %s, but the current revision is %s: read the current state and try again',
  cause: '`If-Match` does not name the current revision.',
  remedy: 'Read the current `ETag`, and repeat the change with it.',
})

export const StateInvalidError = failure({
  code: 'WASM_SERVE_STATE_INVALID',
  site: 'command',
  isMistake: true,
  message:
    'State folder %s cannot be used: %s. Name another with --state (option "state"), repair it, or move it away to start from the configuration alone',
  cause:
    'The state folder has content that wasm-serve did not write, or that only the configuration may set.',
  remedy: 'Restore a backup, or start with an empty folder.',
})

export const StateUntrustedError = failure({
  code: 'WASM_SERVE_STATE_UNTRUSTED',
  site: 'command',
  isMistake: true,
  message: 'State folder %s is not private to this user: %s',
  cause: 'Other users can write to the state folder or replace it.',
  remedy: 'Change the owner or mode as the message says.',
})

export const StateUnwritableError = failure({
  code: 'WASM_SERVE_STATE_UNWRITABLE',
  status: 507,
  message: 'State folder %s cannot be written, so nothing was changed: %s',
  cause: 'The state folder cannot be written. Nothing was changed.',
  remedy: 'Check its free space and permissions.',
})

export const FilesUnsettledError = failure({
  code: 'WASM_SERVE_FILES_UNSETTLED',
  site: 'command',
  message: 'Files are still changing after %d ms, so their new content is not served: %s',
  cause: 'A file was still being written during the reload.',
  remedy: 'Reload again. Write files under another name, then rename them.',
})

export const AdminTokenRefusedError = failure({
  code: 'WASM_SERVE_ADMIN_TOKEN_REFUSED',
  status: 401,
  message: 'The admin listener needs the admin token, as Authorization: Bearer TOKEN',
  cause: 'The request does not have the token of the [admin listener](../operate/admin-api.md).',
  remedy: 'Send `Authorization: Bearer TOKEN`: the value of `WASM_SERVE_ADMIN_TOKEN`, or the printed token.',
})

export const AdminOriginRefusedError = failure({
  code: 'WASM_SERVE_ADMIN_ORIGIN_REFUSED',
  status: 403,
  message: 'The admin listener refuses this request: %s',
  cause: 'The request to the admin listener names another host or comes from another origin.',
  remedy: 'Use the address of the listener, or add the host to `adminHosts`.',
})
