import { hostname } from 'node:os'
import { UsageError } from '../../errors/errors.ts'
import { checkNode } from '../../options/check-config.ts'
import { fromWord, renderOrigin, scalarsIn } from '../../options/config-node.ts'
import { variablesIn } from '../../options/config-text.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import type { OwnOptions } from '../configuration.ts'
import type { RolloutRules } from './fleet-store.ts'
import type { Permissions } from './permissions.ts'
import { SHARED_OPTIONS } from './shared-configuration.ts'

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
  readonly permissions: Permissions
  /** The state folder; undefined if there is none. */
  readonly folder: string | undefined
}

/**
 * The settings of the fleet among the options of a server.
 *
 * @returns undefined if there is no fleet.
 * @throws `OptionsError` for any invalid option of the server, {@link UsageError} if a secret of the node's own options could be
 * shared.
 */
export function fleetSettings(own: OwnOptions): FleetSettings | undefined {
  const { server, load } = own
  if (!server.entries.has('fleet')) return undefined
  const followed = load.entries.get('registryPollMs')
  if (followed)
    throw new UsageError(
      `${renderOrigin(followed.origin)}: is not possible in a fleet: use wasm-serve fleet apply`,
    )
  // Its routes are those of the fleet: one stands for them.
  const { fleet, state, port, socket } = checkNode(server, [fromWord('plugin', 'fleet.wasm')])
  refuseOwnSecrets(own, fleet?.allow?.env ?? [])
  return fleet && { ...settingsOf(fleet, addressName(port, socket)), folder: state }
}

/** Variables with the node's own secrets, such as that of `adminToken`, are not for the fleet. */
function refuseOwnSecrets({ server, load }: OwnOptions, allowed: readonly string[]): void {
  const own = [...server.entries].filter(([name]) => !SHARED_OPTIONS.has(name))
  const nodes = [load, ...own.map(([, { configured }]) => configured)]
  for (const { origin, template } of nodes.flatMap(scalarsIn)) {
    const shared = variablesIn(template?.isSecret ? template.text : '').find((name) => allowed.includes(name))
    if (shared !== undefined)
      throw new UsageError(
        `${renderOrigin(origin)}: \${${shared}} is a secret of this node: remove it from fleet.allow.env`,
      )
  }
}

/** The settings without the folder of a node. */
function settingsOf(
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
    permissions: fleet.allow ?? {},
  }
}

function addressName(port: number, socket: string | undefined): string {
  const part = socket ?? (port === 0 ? `pid-${process.pid}` : String(port))
  return `${hostname()}:${part}`.replaceAll(/\s/g, '-').slice(0, 128)
}
