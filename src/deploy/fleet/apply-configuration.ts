import { FleetChangedError, FleetContentError, FleetRevisionError } from '../../errors/errors.ts'
import { COMMAND_LINE, mapOf } from '../../options/config-node.ts'
import type { ModuleBytes } from '../../plugin/source/module-bytes.ts'
import type { SourceOptions } from '../../plugin/source/source.ts'
import type { DesiredState } from '../desired-state.ts'
import { type Edits, NO_EDITS } from '../edits.ts'
import { editsOf, headOf, writeHead } from './changes.ts'
import {
  digestsOfTexts,
  placesOf,
  renderTexts,
  storeContents,
  storedModule,
  verifiedContent,
} from './contents.ts'
import { type ComparedState, differenceOf, type FleetDifference, isEmpty } from './difference.ts'
import type { FleetHead, FleetRevision, FleetStore } from './fleet-store.ts'
import { nextHead } from './rollout.ts'
import type { FleetSettings } from './settings.ts'
import { parseShared, type SharedConfiguration } from './shared-configuration.ts'

/** A configuration from files, with the edits of a fleet. */
interface ConfiguredState {
  readonly desired: Pick<DesiredState, 'configuration' | 'edits' | 'warnings'>
  /** Modules, by digest, that the store may not have. */
  readonly modules: ReadonlyMap<string, ModuleBytes>
}

/** How a configuration is read. */
export interface Configuring {
  /**
   * Reads it, with its plug-ins.
   *
   * @param edits - The edits of the newest revision.
   * @param module - The bytes of their modules, by digest.
   */
  read(edits: Edits, module: (digest: string) => Promise<Uint8Array>): Promise<ConfiguredState>
  /** How plug-ins are read from registries. */
  readonly sources: SourceOptions
}

/** A configuration, compared with the newest revision. */
interface ComparedConfiguration extends ConfiguredState {
  /** undefined: there is no revision. */
  readonly head: FleetHead | undefined
  /** What would change. */
  readonly difference: FleetDifference
}

/** Compares a configuration from files with the newest revision. @throws `FleetUnavailableError` */
export async function compareConfiguration(
  store: FleetStore,
  { read, sources }: Configuring,
): Promise<ComparedConfiguration> {
  const head = await headOf(store)
  const before = head && (await stateOf(store, head.newest))
  const edits = before?.edits ?? NO_EDITS
  const places = placesOf(edits)
  const { desired, modules } = await read(edits, (digest) =>
    storedModule(store, digest, places.get(digest), sources),
  )
  const { configuration } = renderTexts(desired.configuration, desired.edits)
  const after = { configuration: shownConfiguration(configuration), edits: desired.edits }
  return { head, desired, modules, difference: differenceOf(before ?? NOTHING, after) }
}

/** The input of {@link applyConfiguration}. */
interface Applying extends Configuring, Pick<FleetSettings, 'rules' | 'moduleMax'> {
  readonly by: string
  readonly reason: string
  /** The expected newest revision; 0: none exists. Default: it is not checked. */
  readonly expected?: number | undefined
}

interface AppliedConfiguration extends Omit<ComparedConfiguration, 'head' | 'modules'> {
  /** The head afterwards. */
  readonly head: FleetHead
  /** Whether it has a new revision: not if nothing differs. */
  readonly isNew: boolean
}

/** How often a configuration is read again because another change came first. */
const MAX_TRIES = 5

/**
 * Makes a configuration from files the newest revision. The edits of the admin API stay. A rollout that has stopped
 * begins again, even if nothing differs.
 *
 * @throws {@link FleetRevisionError} if the newest revision is not the expected one, {@link FleetChangedError} if other
 * changes come first all the time.
 */
export async function applyConfiguration(
  store: FleetStore,
  applying: Applying,
): Promise<AppliedConfiguration> {
  for (let tries = 1; ; tries++) {
    try {
      return await tryToApply(store, applying)
    } catch (error) {
      if (!(error instanceof FleetChangedError) || tries === MAX_TRIES) throw error
    }
  }
}

async function tryToApply(store: FleetStore, applying: Applying): Promise<AppliedConfiguration> {
  const { by, reason, expected, rules, moduleMax, sources } = applying
  const known = (await headOf(store))?.newest.revision ?? 0
  if (expected !== undefined && known !== expected) throw new FleetRevisionError(known, expected)
  const { head, desired, modules, difference } = await compareConfiguration(store, applying)
  const newest = head?.newest.revision ?? 0
  if (expected !== undefined && newest !== expected) throw new FleetRevisionError(newest, expected)
  if (head && head.rollout.phase !== 'stopped' && isEmpty(difference))
    return { head, desired, difference, isNew: false }
  const texts = renderTexts(desired.configuration, desired.edits)
  const places = placesOf(desired.edits)
  const uses = await storeContents(
    store,
    texts,
    desired.edits,
    async (digest) => modules.get(digest) ?? storedModule(store, digest, places.get(digest), sources),
    moduleMax,
  )
  const next = nextHead(head, { ...digestsOfTexts(texts), by, reason, rules }, await store.nodes())
  await writeHead(store, head, next, uses)
  return { head: next, desired, difference, isNew: true }
}

const NOTHING: ComparedState = {
  configuration: {
    file: undefined,
    server: mapOf([], COMMAND_LINE),
    defaults: { route: mapOf([], COMMAND_LINE), plugins: new Map() },
    routes: [],
    warnings: [],
  },
  edits: NO_EDITS,
}

/** A revision with variables as they are written: this machine need not have them. */
async function stateOf(store: FleetStore, revision: FleetRevision): Promise<ComparedState> {
  const text = await verifiedContent(store, revision.configuration, 'configuration')
  const configuration = shownConfiguration(Buffer.from(text).toString())
  return { configuration, edits: await editsOf(store, revision) }
}

function shownConfiguration(text: string): SharedConfiguration {
  const configuration = parseShared(text, undefined)
  if ('problem' in configuration) throw new FleetContentError('configuration', configuration.problem)
  return configuration
}
