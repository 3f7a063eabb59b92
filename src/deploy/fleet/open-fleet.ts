import type { FastifyBaseLogger } from 'fastify'
import { FleetEmptyError, FleetNoCopyError, FleetUnavailableError } from '../../errors/errors.ts'
import { hasOwnCode } from '../../errors/failure.ts'
import type { Config } from '../../options/config.ts'
import type { CheckedLoadOptions } from '../../options/options.ts'
import { bytesOf, type ModuleBytes } from '../../plugin/source/module-bytes.ts'
import type { SourceOptions } from '../../plugin/source/source.ts'
import {
  type CommandContext,
  commandConfiguration,
  type OwnOptions,
  readOwnOptions,
} from '../configuration.ts'
import type { DeploymentContext, Deployments } from '../deployments.ts'
import { type DesiredState, desiredState } from '../desired-state.ts'
import { type Edits, NO_EDITS } from '../edits.ts'
import { PluginTable, sourceOptions } from '../loader.ts'
import { receivedConfiguration, receivedEdits } from '../received-state.ts'
import { combineErrors, loadOptionsOf, type Resolved } from '../resolve.ts'
import { openDeployments } from '../start.ts'
import { renderTexts } from './contents.ts'
import { type FailedBeginning, FleetNode, type FleetNodeParts } from './fleet-node.ts'
import type { FleetHead, FleetRevision, FleetStore, NodeReport } from './fleet-store.ts'
import { type LastCopy, lastCopyIn } from './last-copy.ts'
import { type FleetState, NodeStates } from './node-states.ts'
import { withoutOwnLayers } from './own-options.ts'
import { openRedisFleet, type RedisFleetSettings } from './redis-fleet-store.ts'
import { revisionFor } from './rollout.ts'
import { type FleetSettings, fleetSettings } from './settings.ts'

/** A server that is a node of a fleet. */
export interface OpenedFleet {
  /** The fleet and the revision that is served, for people. */
  readonly title: string
  readonly node: FleetNode
  /** Changes of these are changes of the fleet. */
  readonly deployments: Deployments
  /** Begins to follow the fleet. @param url - For clients. */
  start(url: string | undefined): void
}

/** What a node needs to open. */
export interface OpeningFleet {
  readonly config: Config
  readonly context: CommandContext
  readonly settings: FleetSettings
  readonly own: OwnOptions
  /** The log of the moment: it is opened with the first deployment. */
  log(): FastifyBaseLogger
  /** See `openDeployments`. Called again if a state cannot be served. */
  begin(options: Resolved['options'], node: FleetNode): DeploymentContext | Promise<DeploymentContext>
}

/**
 * Opens a node: with the revision that the fleet has for it; with its last copy while the store does not answer; and with
 * its own files if the fleet has no revision, of which it makes the first one.
 *
 * @throws `FleetUnavailableError` if the store does not answer and there is no copy, and the reason that no state can be
 * served.
 */
export async function openFleet(opening: OpeningFleet): Promise<OpenedFleet> {
  const { settings } = opening
  const { url, name: fleet, keyPrefix, history } = settings
  const log: RedisFleetSettings['log'] = {
    warn: (fields, message) => opening.log().warn(fields, message),
    info: (fields, message) => opening.log().info(fields, message),
  }
  const store = await openRedisFleet({ url, fleet, keyPrefix, history, log })
  try {
    return await openNode(opening, store)
  } catch (error) {
    await store.close()
    throw error
  }
}

/** A state that a node may begin with. */
interface Beginning {
  readonly fleet: string | undefined
  readonly revision: FleetRevision | undefined
  readonly from: NodeReport['from']
  read(): Promise<BeginningState>
}

interface BeginningState {
  readonly state: FleetState
  /** The modules, if the store does not have them. */
  readonly modules?: ReadonlyMap<string, ModuleBytes>
}

async function openNode(opening: OpeningFleet, store: FleetStore): Promise<OpenedFleet> {
  const { settings, config, context, own, log } = opening
  const copy = settings.folder === undefined ? undefined : lastCopyIn(settings.folder)
  const sources = (load: CheckedLoadOptions) => sourceOptions(load, context.environment, context.onTransfer)
  const states = new NodeStates(
    {
      ...{ store, copy, config, context },
      readOwn: () => readOwnOptions(config, context, true),
      permissions: (own) => fleetSettings(own)?.permissions ?? {},
      sources: (own) => sources(loadOptionsOf(own)),
    },
    own,
  )
  const head = await headOf(store, log)
  let failure: FailedBeginning | undefined
  for (const beginning of await findBeginnings(opening, store, states, head, copy)) {
    const { fleet, revision, from } = beginning
    const parts: FleetNodeParts = {
      ...{ settings, store, states, secrets: context.secrets },
      get log() {
        return log()
      },
    }
    try {
      const begun = await beginning.read()
      const { edits, texts } = begun.state
      const node = new FleetNode(parts, { fleet, revision, from, edits, texts }, head.head, failure)
      const deployments = await openBeginning(begun, node, states, opening, sources, from === 'files')
      return {
        title: `${store.name}, revision ${node.status.revision}`,
        node,
        deployments,
        start(url) {
          node.attach(deployments, url)
          node.start()
        },
      }
    } catch (error) {
      if (from === 'files' || !hasOwnCode(error)) throw error
      failure ??= { revision, error }
    }
  }
  throw failure?.error
}

/** The head, or the reason that the store does not answer. */
interface FoundHead {
  readonly head?: FleetHead | undefined
  readonly unavailable?: Error
}

async function headOf(store: FleetStore, log: OpeningFleet['log']): Promise<FoundHead> {
  try {
    const { head } = await store.head()
    return { head: head === 'unchanged' ? undefined : head }
  } catch (error) {
    if (!(error instanceof FleetUnavailableError)) throw error
    log().warn({ code: error.code }, error.message)
    return { unavailable: error }
  }
}

function openBeginning(
  { state, modules = new Map() }: BeginningState,
  node: FleetNode,
  states: NodeStates,
  { begin }: OpeningFleet,
  sourceOptions: (load: CheckedLoadOptions) => SourceOptions,
  isSeed: boolean,
): Promise<Deployments> {
  let isFirst = true
  const read = () => {
    const { configuration } = isFirst ? state : states.stateOf(node.texts, 0)
    isFirst = false
    return configuration
  }
  const module = async (digest: string) => {
    const found = modules.get(digest)
    return found ? bytesOf(found) : states.module(digest)
  }
  // The node stores later edits.
  const write = async () => void (isSeed && (await node.seed(modules)))
  return openDeployments(
    receivedConfiguration(read, sourceOptions),
    async (options) => ({ ...(await begin(options, node)), shared: node }),
    async () => receivedEdits(state.edits, module, write),
  )
}

/**
 * The states that a node may begin with, the best first. A store without a head has lost it if there is a copy: files would
 * take the fleet back to its first revision.
 */
async function findBeginnings(
  { settings, config, context, own }: OpeningFleet,
  store: FleetStore,
  states: NodeStates,
  { head, unavailable }: FoundHead,
  copy: LastCopy | undefined,
): Promise<readonly Beginning[]> {
  const kept = await copy?.read()
  if (!head && !unavailable && !kept) {
    if (config.words.length === 0 && own.file === undefined) throw new FleetEmptyError(store.name)
    const read = async () => {
      const plugins = new PluginTable()
      const { configuration, edits } = await readShared(config, context, plugins, NO_EDITS)
      return { state: states.stateOf(renderTexts(configuration, edits), 0), modules: plugins.modules }
    }
    return [{ fleet: undefined, revision: undefined, from: 'files', read }]
  }
  const wanted = head && revisionFor(head, settings.node, { revision: 0, id: '' })
  const stored = new Map([wanted, head?.before].flatMap((each) => (each ? [[each.id, each]] : [])))
  const beginnings: Beginning[] = [...stored.values()].map((revision) => ({
    ...{ fleet: head?.fleet, revision, from: 'fleet' },
    read: async () => ({ state: await states.load(revision) }),
  }))
  if (!kept && unavailable) throw new FleetNoCopyError(unavailable.message, { cause: unavailable })
  if (!kept) return beginnings
  const { fleet, revision, ...texts } = kept
  const read = async () => ({ state: states.stateOf(texts, revision.revision) })
  return [...beginnings, { fleet, revision, from: 'copy', read }]
}

/**
 * Reads the configuration of a command line that nodes share.
 *
 * @param plugins - Receives its modules.
 * @param edits - The edits so far.
 * @throws the problems, together.
 */
export async function readShared(
  config: Config,
  context: CommandContext,
  plugins: PluginTable,
  edits: Edits,
): Promise<DesiredState> {
  const failures: unknown[] = []
  const failed = (error: unknown) => failures.push(error)
  const source = commandConfiguration(withoutOwnLayers(config), context)
  const configuration = await source.read({ plugins }, failed)
  if (!configuration || failures.length > 0) throw combineErrors(failures)
  return desiredState(configuration, edits, 1)
}
