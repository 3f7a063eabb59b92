import { failure } from './failure.ts'

/* Failures of a fleet: nodes that serve one desired state. */

export const FleetUnavailableError = failure({
  code: 'WASM_SERVE_FLEET_UNAVAILABLE',
  status: 503,
  message: 'The store of the fleet (%s) cannot be used now: %s',
  cause: 'The store of the fleet does not answer. The node serves what it has; the fleet cannot be changed.',
  remedy: 'Check the server of `--fleet`, and the network to it.',
})

export const FleetNoCopyError = failure({
  code: 'WASM_SERVE_FLEET_NO_COPY',
  site: 'command',
  message: 'This node has no copy of a revision to start from (--state), and needs the store: %s',
  cause:
    'The store of the fleet does not answer at the start, and the node has no copy of a revision in `--state`.',
  remedy:
    'Check the server of `--fleet`, and the network to it. A node that has served with `--state` boots without it.',
})

export const FleetContentError = failure({
  code: 'WASM_SERVE_FLEET_CONTENT_INVALID',
  site: 'command',
  message: 'The %s of the fleet cannot be used: %s',
  cause:
    'Something of the fleet is missing or damaged, needs a variable that this node does not have, or is too large (`fleet.moduleMax`).',
  remedy:
    'The message names it. Set the variable, or apply the configuration again; push a large module to a registry, and name it by `oci://`.',
})

export const FleetForbiddenError = failure({
  code: 'WASM_SERVE_FLEET_FORBIDDEN',
  site: 'command',
  message: 'The configuration of the fleet asks for what this node does not allow: %s',
  cause:
    'The configuration of the fleet uses host functions, files, variables or processes that this node does not allow, or options that only a node itself may set. The message names each with its line.',
  remedy:
    'Name what is meant in [`fleet.allow`](../operate/fleet.md#what-a-node-allows) of the config file of the node, and send it SIGHUP; or remove it from the configuration, and apply that.',
})

export const FleetEmptyError = failure({
  code: 'WASM_SERVE_FLEET_EMPTY',
  status: 409,
  message: 'The fleet has no revision (%s): start a node with plug-ins, or run wasm-serve fleet apply',
  cause: 'The fleet has no revision yet, or its store has lost all.',
  remedy: 'Start a node with plug-ins or a config file, or run `wasm-serve fleet apply`.',
})

export const FleetNotAppliedError = failure({
  code: 'WASM_SERVE_FLEET_NOT_APPLIED',
  status: 409,
  message: 'Revision %d is stored, but not all nodes serve it: %s',
  cause:
    'The revision is stored, but a node refuses it, it was taken back, or not all nodes served it in time.',
  remedy:
    'The detail names the nodes and the reason. Correct it and apply again, or run `wasm-serve fleet rollback`.',
})

export const FleetChangedError = failure({
  code: 'WASM_SERVE_FLEET_CHANGED',
  status: 409,
  message: 'Another change of the fleet came first: read the current state and try again',
  cause: 'Another change of the [fleet](../operate/fleet.md) was stored first.',
  remedy: 'Look at the newest revision, and make the change again.',
})

export const FleetRevisionError = failure({
  code: 'WASM_SERVE_FLEET_REVISION_OTHER',
  status: 409,
  message: 'The newest revision of the fleet is %d, not %d: look at the difference, and try again',
  cause: 'The newest revision of the fleet is not that of `--expect`.',
  remedy: 'Look at it with `wasm-serve fleet diff`, and apply again with its number.',
})
