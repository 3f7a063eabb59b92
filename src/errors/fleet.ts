import { failure } from './failure.ts'

/* Failures of a fleet: nodes that serve one desired state. */

export const FleetUnavailableError = failure({
  code: 'WASM_SERVE_FLEET_UNAVAILABLE',
  status: 503,
  message: 'The store of the fleet (%s) cannot be used now: %s',
  cause: "The fleet's store cannot be reached. The node keeps serving.",
  remedy: 'Check the server of `--fleet` and the network to it.',
})

export const FleetNoCopyError = failure({
  code: 'WASM_SERVE_FLEET_NO_COPY',
  site: 'command',
  message: 'This node has no copy of a revision to start from (--state), and needs the store: %s',
  cause: "The fleet's store cannot be reached at start, and `--state` has no revision.",
  remedy: 'Check the server of `--fleet`.',
})

export const FleetContentError = failure({
  code: 'WASM_SERVE_FLEET_CONTENT_INVALID',
  site: 'command',
  message: 'The %s of the fleet cannot be used: %s',
  cause:
    'Content of the fleet is missing, damaged or too large, or requires a variable that the node does not have.',
  remedy:
    'Set the variable, or apply the configuration again. Name a module larger than `fleet.moduleMax` by `oci://`.',
})

export const FleetForbiddenError = failure({
  code: 'WASM_SERVE_FLEET_FORBIDDEN',
  site: 'command',
  message: 'The configuration of the fleet uses what this node does not allow: %s',
  cause:
    'The fleet configuration uses something that the node does not allow, or options that only a node may set.',
  remedy:
    'Allow it in [`fleet.allow`](../operate/fleet.md#what-a-node-allows) of the node and send it SIGHUP, or remove it.',
})

export const FleetEmptyError = failure({
  code: 'WASM_SERVE_FLEET_EMPTY',
  status: 409,
  message: 'The fleet has no revision (%s): start a node with plug-ins, or run wasm-serve fleet apply',
  cause: 'The fleet has no revision, or its store lost its data.',
  remedy: 'Start a node with plug-ins or a config file, or run `wasm-serve fleet apply`.',
})

export const FleetNotAppliedError = failure({
  code: 'WASM_SERVE_FLEET_NOT_APPLIED',
  status: 409,
  message: 'Revision %d is stored, but not all nodes serve it: %s',
  cause: 'A node refused the revision, it was rolled back, or not all nodes served it in time.',
  remedy: 'Correct the reason and apply again, or run `wasm-serve fleet rollback`.',
})

export const FleetChangedError = failure({
  code: 'WASM_SERVE_FLEET_CHANGED',
  status: 409,
  message: 'Another change of the fleet came first: read the current state and try again',
  cause: 'Another change of the [fleet](../operate/fleet.md) was stored first.',
  remedy: 'Read the newest revision, and repeat the change.',
})

export const FleetRevisionError = failure({
  code: 'WASM_SERVE_FLEET_REVISION_OTHER',
  status: 409,
  message: 'The newest revision of the fleet is %d, not %d: look at the difference, and try again',
  cause: 'The newest revision of the fleet is not that of `--expect`.',
  remedy: 'Check it with `wasm-serve fleet diff`, and apply with its number.',
})
