/**
 * What the nodes of a fleet share: the head, which names the state to serve, the contents that it needs, and the nodes'
 * reports. Each method is one atomic step. All times are those of the store, so that clocks of nodes do not matter.
 */
export interface FleetStore {
  /** The address without a password and the name of the fleet, for messages. */
  readonly name: string

  /** @param known - The tag of a head that need not be sent again. */
  head(known?: string): Promise<SeenHead>

  /**
   * Replaces the head if it still has the expected tag.
   *
   * @param expected - The tag; undefined: there is no head.
   * @param next - Its revision must be newer, or the same revision with another rollout.
   * @param uses - The digests of all contents of a new revision. Contents that no kept revision uses are removed.
   * @returns `changed` if the head is another one, `missing` if a content is not there. Nothing has changed then.
   */
  write(
    expected: string | undefined,
    next: FleetHead,
    uses?: readonly string[],
  ): Promise<'written' | 'changed' | 'missing'>

  /** The last revisions, the newest first. */
  revisions(): Promise<readonly FleetRevision[]>

  /** A content; undefined if it is missing. The caller checks its digest. */
  content(digest: string): Promise<Uint8Array | undefined>

  /** The digests that are missing. The others stay for at least an hour. */
  missing(digests: readonly string[]): Promise<readonly string[]>

  /** Adds a content. It is removed after an hour if no revision uses it then. */
  add(digest: string, bytes: Uint8Array): Promise<void>

  /** Records a node, and reads the head in the same step. */
  report(node: NodeReport, known?: string): Promise<SeenHead>

  /** Removes the record of a node that ends. */
  leave(node: string): Promise<void>

  nodes(): Promise<SeenNodes>

  /** Calls the listener soon after each write, if the connection permits it. */
  onWrite(listener: () => void): void

  close(): Promise<void>
}

export interface SeenHead {
  /** `unchanged` if it has the known tag, undefined if there is none. */
  readonly head: FleetHead | 'unchanged' | undefined
  /** The time of the store, in ms since 1970. */
  readonly now: number
  /** The instance whose record a report has replaced. */
  readonly replaced?: string | undefined
}

export interface SeenNodes {
  readonly nodes: readonly SeenNode[]
  readonly now: number
}

/** A state for all nodes, and how far it may be rolled out. */
export interface FleetHead {
  /** Changes with each write. */
  readonly tag: string
  /** Made with the first head. Revisions of different fleets cannot be compared. */
  readonly fleet: string
  readonly newest: FleetRevision
  /** What nodes serve that may not serve the newest yet. Undefined for the first revision. */
  readonly before?: FleetRevision | undefined
  readonly rollout: Rollout
}

/** A state of the fleet. */
export interface FleetRevision {
  /** Grows with each change. */
  readonly revision: number
  /** Two revisions with the same number, one of which was lost by the store, have different ids. */
  readonly id: string
  /** Digests of contents. */
  readonly configuration: string
  readonly edits: string
  /** ISO 8601. */
  readonly at: string
  /** Who made it. */
  readonly by: string
  /** The change. */
  readonly reason: string
}

/** Where a revision may be served. */
export interface Rollout extends RolloutRules {
  /** `canary`: by some nodes; `all`; `done`: all nodes that are there have answered; `stopped`: by no further node. */
  readonly phase: 'canary' | 'all' | 'done' | 'stopped'
  /** When the phase began, in ms. */
  readonly since: number
  /** The nodes of `canary`. */
  readonly nodes: readonly string[]
  /** When `canary` ends, if all goes well; in ms. */
  readonly until?: number | undefined
  /** Why it stopped or was rolled back. */
  readonly problem?: string | undefined
}

/** How a change is rolled out. */
export interface RolloutRules {
  /** The number of nodes that serve it first. Undefined, and no share: all at once. */
  readonly canaryNodes?: number | undefined
  /** The share of all nodes that serve it first. */
  readonly canaryPercent?: number | undefined
  /** How long only they serve it, in ms. */
  readonly canaryMs: number
  /** The number of nodes that may refuse it. */
  readonly maxRefusals: number
  /** What happens if more refuse. */
  readonly onRefusals: 'stop' | 'rollback'
}

/** What a node says of itself. */
export interface NodeReport {
  readonly node: string
  /** The id of the process, by which two nodes with the same name are noticed. */
  readonly instance: string
  /** The revision that it serves; 0 if none of this fleet. */
  readonly revision: number
  /** The id of that revision. */
  readonly id: string
  /** When the node began to serve it, as ISO 8601. */
  readonly since: string
  /** Where its state came from at the start, or later from the fleet. */
  readonly from: 'fleet' | 'copy' | 'files'
  /** A revision that it cannot serve. */
  readonly refused?: Refusal | undefined
  /** The version of wasm-serve. */
  readonly version: string
  readonly url?: string | undefined
  /** Digests of live plug-ins by name, for people: the first of them. */
  readonly plugins: Readonly<Record<string, string>>
  /** The number of live plug-ins. */
  readonly pluginCount: number
  /** The mean interval of its reports, in ms. */
  readonly pollMs: number
}

export interface Refusal {
  readonly revision: number
  readonly id: string
  readonly code: string
  readonly message: string
  /** How often the node has tried. */
  readonly attempts: number
}

export interface SeenNode extends NodeReport {
  /** The time of its last report, in ms. */
  readonly seen: number
}
