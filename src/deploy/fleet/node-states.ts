import { FleetContentError, FleetForbiddenError } from '../../errors/errors.ts'
import type { Config } from '../../options/config.ts'
import { sha256 } from '../../plugin/source/digest.ts'
import type { ModuleBytes } from '../../plugin/source/module-bytes.ts'
import type { SourceOptions } from '../../plugin/source/source.ts'
import type { OwnOptions } from '../configuration.ts'
import type { Configuration } from '../desired-state.ts'
import type { Edits } from '../edits.ts'
import type { ServedState } from '../replica.ts'
import { digestsOf } from '../state-folder.ts'
import { parseState } from '../state-json.ts'
import { placesOf, type StateTexts, storedModule, verifiedContent } from './contents.ts'
import type { FleetRevision, FleetStore } from './fleet-store.ts'
import type { CopiedState, LastCopy } from './last-copy.ts'
import { withOwnOptions } from './own-options.ts'
import { forbiddenIn, type Permissions } from './permissions.ts'
import { parseShared, type SharedContext } from './shared-configuration.ts'

/** A state of the fleet as a node serves it. */
export interface FleetState extends ServedState {
  readonly texts: StateTexts
}

/** What a node needs to read states. */
interface NodeStatesParts {
  readonly store: FleetStore
  /** undefined: nothing is kept. */
  readonly copy: LastCopy | undefined
  readonly config: Config
  readonly context: Omit<SharedContext, 'variables'>
  /** The options of the node, read again by {@link NodeStates.renew}. */
  readOwn(): Promise<OwnOptions>
  /** What the node lets a configuration use. */
  permissions(own: OwnOptions): Permissions
  /** How plug-ins are read from registries. */
  sources(own: OwnOptions): SourceOptions
}

/** The states of a fleet, with the options of this node, and their modules. */
export class NodeStates {
  readonly #parts: NodeStatesParts
  #own: OwnOptions
  #permissions: Permissions
  /** The last configurations, by the digest of their text: an equal one is the same object. */
  #configurations = new Map<string, { readonly text: string; readonly configuration: Configuration }>()
  /** The places of modules that stay in their registry, by digest. */
  readonly #places = new Map<string, string>()

  constructor(parts: NodeStatesParts, own: OwnOptions) {
    this.#parts = parts
    this.#own = own
    this.#permissions = parts.permissions(own)
  }

  /** Reads the options of the node again. */
  async renew(): Promise<void> {
    const own = await this.#parts.readOwn()
    this.#permissions = this.#parts.permissions(own)
    this.#own = own
    this.#configurations = new Map()
  }

  /** The state of a revision. @throws {@link FleetContentError}, {@link FleetForbiddenError}, `FleetUnavailableError` */
  async load(revision: FleetRevision): Promise<FleetState> {
    const known = this.#configurations.get(revision.configuration)?.text
    const edits = await this.#text(revision.edits, 'list of edits')
    const configuration = known ?? (await this.#text(revision.configuration, 'configuration'))
    return this.stateOf({ configuration, edits }, revision.revision)
  }

  /**
   * The state that texts describe, wherever they are from.
   *
   * @throws {@link FleetContentError}, {@link FleetForbiddenError}
   */
  stateOf(texts: StateTexts, revision: number): FleetState {
    const edits = parseState(texts.edits)
    if ('problem' in edits) throw new FleetContentError('list of edits', edits.problem)
    for (const [digest, place] of placesOf(edits)) this.#places.set(digest, place)
    return { revision, configuration: this.#configuration(texts.configuration), edits, texts }
  }

  /** The bytes of a module: from the state folder, the store, or its registry. */
  async module(digest: string): Promise<Uint8Array> {
    const { store, copy } = this.#parts
    const kept = await copy?.modules.get(digest).catch(() => undefined) // not kept yet, or damaged
    if (kept) return kept
    const { sources } = this.#parts
    const bytes = await storedModule(store, digest, this.#places.get(digest), sources(this.#own))
    await copy?.modules.put(digest, bytes)
    return bytes
  }

  /** Keeps a state for a boot without the store. @throws `StateUnwritableError` */
  async keep(state: CopiedState, edits: Edits): Promise<void> {
    const { copy } = this.#parts
    if (!copy) return
    await copy.write(state)
    await copy.modules.keep(await digestsOf(edits)).catch(() => undefined) // can be removed later
  }

  /** Keeps modules for a boot without the store. */
  async keepModules(modules: ReadonlyMap<string, ModuleBytes>): Promise<void> {
    const { copy } = this.#parts
    if (copy) for (const [digest, module] of modules) await copy.modules.put(digest, module)
  }

  async #text(digest: string, what: string): Promise<string> {
    return Buffer.from(await verifiedContent(this.#parts.store, digest, what)).toString()
  }

  #configuration(text: string): Configuration {
    const digest = sha256(text)
    const known = this.#configurations.get(digest)
    if (known) return known.configuration
    const { config, context } = this.#parts
    const permissions = this.#permissions
    const shared = parseShared(text, { ...context, variables: permissions.env ?? [] })
    if ('problem' in shared) throw new FleetContentError('configuration', shared.problem)
    const forbidden = forbiddenIn(shared, permissions)
    if (forbidden.length > 0) throw new FleetForbiddenError(forbidden.join('; '))
    const configuration = withOwnOptions(shared, this.#own, config, permissions)
    const last = [...this.#configurations].at(-1)
    this.#configurations = new Map([...(last ? [last] : []), [digest, { text, configuration }]])
    return configuration
  }
}
