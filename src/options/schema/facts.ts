/**
 * What is known of an option besides its values. All lists of options are filters of these facts, see `options/facts.ts`. Where a fact is
 * missing, the cautious one holds: new instances or a restart, not for the fleet, not for the admin API.
 */
export interface OptionFacts {
  /** The name of its flag, if it is not that of the option. false: it has neither a flag nor a variable. */
  readonly flag?: string | false
  /** Whether it has a variable without a flag: every user of the machine can read flags. */
  readonly variable?: true
  /** How an entry of its map is written in a flag. Default: `K=V`. */
  readonly entries?: EntryKind
  /** Default: `instance` for an option of a route, else `process`. */
  readonly reach?: Reach
  /** Who sets it in a fleet: the shared configuration, or only the node. Default: the node, unless `edit` is set. */
  readonly owner?: 'fleet'
  /** The list of `fleet.allow` that must have its value. Default: `paths` for paths, else none. */
  readonly allow?: 'functions' | 'processes'
  /** Whether an edit may set it: the admin API, or a state folder. It then refers to no code and no file of the machine. */
  readonly edit?: true
  /** The option without which it has no effect. */
  readonly needs?: 'admin' | 'processes'
  /** Whether its value 0 is for plug-ins that stream only: others keep the whole body in memory. */
  readonly zero?: 'streams'
  /** Whether a guest without a server has it, as in `call`. Default: all options of routes and of loading. */
  readonly guest?: boolean
  /** The codes of failures that it causes. */
  readonly errors?: readonly string[]
  /** Whether the Helm chart sets it. */
  readonly chart?: true
}

/**
 * What a change of an option reaches. A reload applies it, unless it is `process`:
 *
 * - `document`: descriptions.
 * - `answer`: how requests are answered. Instances stay.
 * - `place`: which requests an instance gets. There are new instances, which start as the old ones did.
 * - `instance`: new instances.
 * - `load`: the plug-in is loaded again.
 * - `source`: which files are read. If their bytes are the same, instances stay.
 * - `process`: sockets, stores, threads and folders of the process. It needs a restart.
 */
type Reach = 'document' | 'answer' | 'place' | 'instance' | 'load' | 'source' | 'process'

/**
 * Repeatable flags, each of which adds an entry: `K=V`, `HOST[:GUEST]`, `[NAME=]SOURCE`, `K=NUMBER`, `PREFIX=KEY[,KEY]`,
 * `HOST=insecure` or `HOST=CA`.
 */
export type EntryKind = 'pairs' | 'paths' | 'links' | 'numbers' | 'keys' | 'registries'
