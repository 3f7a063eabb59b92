import { failure } from './failure.ts'

/* Failures of a fleet: nodes that serve one desired state. */

/** The store of the fleet does not answer. The node serves what it has; changes are not possible. */
export const FleetUnavailableError = failure<[store: string, reason: string]>(
  'WASM_SERVE_FLEET_UNAVAILABLE',
  'The store of the fleet (%s) cannot be used now: %s',
  503,
)

/** The store of the fleet does not answer at the start, and the state folder has no copy of a revision. */
export const FleetNoCopyError = failure<[reason: string]>(
  'WASM_SERVE_FLEET_NO_COPY',
  'This node has no copy of a revision to start from (--state), and needs the store: %s',
)

/** Something of the fleet is missing, damaged, does not have its digest, or needs a variable that this node does not have. */
export const FleetContentError = failure<[content: string, reason: string]>(
  'WASM_SERVE_FLEET_CONTENT_INVALID',
  'The %s of the fleet cannot be used: %s',
)

/** The configuration of the fleet asks for what this node has not allowed (`fleet.allow`). */
export const FleetForbiddenError = failure<[reasons: string]>(
  'WASM_SERVE_FLEET_FORBIDDEN',
  'The configuration of the fleet asks for what this node does not allow: %s',
)

/** The fleet has no revision yet, or the store has lost it. */
export const FleetEmptyError = failure<[store: string]>(
  'WASM_SERVE_FLEET_EMPTY',
  'The fleet has no revision (%s): start a node with plug-ins, or run wasm-serve fleet apply',
  409,
)

/** The revision is stored, but a node refuses it, or has not served it in time. */
export const FleetNotAppliedError = failure<[revision: number, nodes: string]>(
  'WASM_SERVE_FLEET_NOT_APPLIED',
  'Revision %d is stored, but not all nodes serve it: %s',
  409,
)

/** Another change was stored between the reading of the current state and the writing of this one. */
export const FleetChangedError = failure(
  'WASM_SERVE_FLEET_CHANGED',
  'Another change of the fleet came first: read the current state and try again',
  409,
)

/** The newest revision is not the one that the caller expects. */
export const FleetRevisionError = failure<[newest: number, expected: number]>(
  'WASM_SERVE_FLEET_REVISION_OTHER',
  'The newest revision of the fleet is %d, not %d: look at the difference, and try again',
  409,
)
