import { hostname } from 'node:os'
import { UsageError } from '../../errors/errors.ts'
import { checkGiven } from '../../options/check-config.ts'
import { fromWord, renderOrigin } from '../../options/config-node.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import type { OwnOptions } from '../configuration.ts'
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
export function fleetSettings({ server, load }: OwnOptions): FleetSettings | undefined {
  if (!server.entries.has('fleet')) return undefined
  const followed = load.entries.get('registryPollMs')
  if (followed)
    throw new UsageError(
      `${renderOrigin(followed.origin)}: is not possible in a fleet: use wasm-serve fleet apply`,
    )
  // Its routes are those of the fleet: one stands for them.
  const { fleet, state, port, socket } = checkGiven(server, [fromWord('plugin', 'fleet.wasm')])
  return fleet && { ...settingsOf(fleet, addressName(port, socket)), folder: state }
}

/** The same for a command without a server. */
export function settingsOf(
  fleet: NonNullable<CheckedServerOptions['fleet']>,
  node: string,
): Omit<FleetSettings, 'folder'> {
  const { canaryNodes, canaryPercent, canaryMs = 60_000, maxRefusals = 0, onRefusals = 'stop' } = fleet
  return {
    url: fleet.url,
    name: fleet.name ?? 'default',
    node: fleet.node ?? node,
    keyPrefix: fleet.keyPrefix ?? 'wasm-serve:',
    pollMs: fleet.pollMs ?? 2_000,
    rules: { canaryNodes, canaryPercent, canaryMs, maxRefusals, onRefusals },
    history: fleet.history ?? 20,
    moduleMax: fleet.moduleMax ?? 33_554_432,
  }
}

function addressName(port: number, socket: string | undefined): string {
  const part = socket ?? (port === 0 ? `pid-${process.pid}` : String(port))
  return `${hostname()}:${part}`.replaceAll(/\s/g, '-').slice(0, 128)
}
