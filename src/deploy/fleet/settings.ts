import { hostname } from 'node:os'
import { pid } from 'node:process'
import { checkGiven } from '../../options/check-config.ts'
import { type ConfigMap, fromWord } from '../../options/config-node.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import type { RolloutRules } from './fleet-store.ts'

/** The option `fleet`, with its defaults. */
export interface FleetSettings {
  readonly url: string
  readonly name: string
  readonly node: string
  readonly keyPrefix: string
  readonly pollMs: number
  readonly rules: RolloutRules
  readonly history: number
  readonly moduleMax: number
  /** The state folder; undefined if there is none. */
  readonly folder: string | undefined
}

/**
 * The settings of the fleet among the options of a server.
 *
 * @returns undefined if there is no fleet.
 * @throws `OptionsError` for any invalid option of the server.
 */
export function fleetSettings(server: ConfigMap): FleetSettings | undefined {
  if (!server.entries.has('fleet')) return undefined
  // Its routes are those of the fleet: one stands for them.
  const { fleet, state, port, socket } = checkGiven(server, [fromWord('plugin', 'fleet.wasm')])
  return fleet && { ...settingsOf(fleet, addressName(port, socket)), folder: state }
}

/** The same for a command without a server. */
export function settingsOf(
  fleet: NonNullable<CheckedServerOptions['fleet']>,
  node: string,
): Omit<FleetSettings, 'folder'> {
  const { canaryNodes, canaryMs = 60_000, maxRefusals = 0, onRefusals = 'stop' } = fleet
  return {
    url: fleet.url,
    name: fleet.name ?? 'default',
    node: fleet.node ?? node,
    keyPrefix: fleet.keyPrefix ?? 'wasm-serve:',
    pollMs: fleet.pollMs ?? 2_000,
    rules: { canaryNodes: numberOrShare(canaryNodes), canaryMs, maxRefusals, onRefusals },
    history: fleet.history ?? 20,
    moduleMax: fleet.moduleMax ?? 33_554_432,
  }
}

function numberOrShare(nodes: string | number | undefined): string | number | undefined {
  return typeof nodes === 'string' && !nodes.endsWith('%') ? Number(nodes) : nodes
}

function addressName(port: number, socket: string | undefined): string {
  const part = socket ?? (port === 0 ? `pid-${pid}` : String(port))
  return `${hostname()}:${part}`.replaceAll(/\s/g, '-').slice(0, 128)
}
