/** Where a value was given. */
export type Origin =
  | { readonly kind: 'flag'; readonly name: string }
  | { readonly kind: 'variable'; readonly name: string }
  | FilePlace

/** A place in a config file. */
export interface FilePlace {
  readonly kind: 'file'
  /** As it is shown to people. */
  readonly file: string
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 units. */
  readonly column: number
}

/** A value of the configuration that remembers where each part of it was given. */
export type ConfigNode = ConfigMap | ConfigList | ConfigScalar

export interface ConfigMap {
  readonly kind: 'map'
  readonly origin: Origin
  readonly entries: ReadonlyMap<string, ConfigEntry>
}

export interface ConfigEntry {
  /** Of the key. */
  readonly origin: Origin
  readonly given: ConfigNode
}

export interface ConfigList {
  readonly kind: 'list'
  readonly origin: Origin
  readonly items: readonly ConfigNode[]
}

export interface ConfigScalar {
  readonly kind: 'scalar'
  readonly origin: Origin
  readonly value: string | number | boolean | null
  /** What people are shown in its place; there if the value comes from the environment and may be a secret. */
  readonly shown?: string
}

/** Keys of a map, or indices of a list, from the outside to the inside. */
export type ConfigPath = readonly (string | number)[]

/** What {@link toData} makes values from: data of a command line or of a variable. */
export function fromData(data: unknown, origin: Origin, shown?: string): ConfigNode {
  if (Array.isArray(data))
    return { kind: 'list', origin, items: data.map((item) => fromData(item, origin, shown)) }
  if (typeof data === 'object' && data !== null) {
    return mapOf(
      Object.entries(data).map(([key, item]) => [key, fromData(item, origin, shown)]),
      origin,
    )
  }
  const value = data as ConfigScalar['value']
  return shown === undefined ? { kind: 'scalar', origin, value } : { kind: 'scalar', origin, value, shown }
}

/** A map of values; a key is where its value is. */
export function mapOf(
  entries: Iterable<readonly [key: string, given: ConfigNode]>,
  origin: Origin,
): ConfigMap {
  const placed = [...entries].map(([key, given]) => [key, { origin: given.origin, given }] as const)
  return { kind: 'map', origin, entries: new Map(placed) }
}

/** What was given on the command line, but by no flag. */
export const COMMAND_LINE: Origin = { kind: 'flag', name: 'command line' }

/** An option that a word of the command line sets. */
export function fromWord(option: string, value: string): ConfigMap {
  return mapOf([[option, { kind: 'scalar', origin: COMMAND_LINE, value }]], COMMAND_LINE)
}

/** The values alone. */
export function toData(given: ConfigNode): unknown {
  switch (given.kind) {
    case 'scalar':
      return given.value
    case 'list':
      return given.items.map(toData)
    case 'map':
      return Object.fromEntries([...given.entries].map(([key, entry]) => [key, toData(entry.given)]))
  }
}

/** Puts layers on top of each other: the last wins; of maps, each key on its own. */
export function mergeMaps(first: ConfigMap, ...upper: readonly ConfigMap[]): ConfigMap {
  const entries = new Map(first.entries)
  for (const layer of upper) {
    for (const [key, entry] of layer.entries) {
      const below = entries.get(key)?.given
      entries.set(
        key,
        below?.kind === 'map' && entry.given.kind === 'map'
          ? { origin: entry.origin, given: mergeMaps(below, entry.given) }
          : entry,
      )
    }
  }
  return { kind: 'map', origin: upper.at(-1)?.origin ?? first.origin, entries }
}

/** What is at a path; undefined if nothing was given there. */
export function givenAt(given: ConfigNode, path: ConfigPath): ConfigNode | undefined {
  const [step, ...rest] = path
  if (step === undefined) return given
  const next = childOf(given, step)
  return next && givenAt(next.given, rest)
}

/**
 * Where what is wrong at a path was given, or the nearest thing around it.
 *
 * @param ofKey - Whether the key is what is wrong, and not its value.
 */
export function originAt(given: ConfigNode, path: ConfigPath, ofKey = false): Origin {
  const [step, ...rest] = path
  if (step === undefined) return given.origin
  const next = childOf(given, step)
  if (!next) return given.origin
  return ofKey && rest.length === 0 ? next.origin : originAt(next.given, rest, ofKey)
}

function childOf(given: ConfigNode, step: string | number): ConfigEntry | undefined {
  if (given.kind === 'map') return given.entries.get(String(step))
  const item = given.kind === 'list' ? given.items[Number(step)] : undefined
  return item && { origin: item.origin, given: item }
}

/** For people: `--port`, `WASM_SERVE_PORT` or `wasm-serve.yaml:3:7`. */
export function renderOrigin(origin: Origin): string {
  return origin.kind === 'file' ? `${origin.file}:${origin.line}:${origin.column}` : origin.name
}
