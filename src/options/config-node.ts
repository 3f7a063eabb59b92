import type { FlagKind } from './flags.ts'

/** The origin of a value. */
export type Origin =
  | { readonly kind: 'flag'; readonly name: string }
  | { readonly kind: 'variable'; readonly name: string }
  | FilePosition

/** A position in a config file. */
export interface FilePosition {
  readonly kind: 'file'
  /** The path as shown to people. */
  readonly file: string
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 units. */
  readonly column: number
}

/** A value of the configuration that records the origin of each of its parts. */
export type ConfigNode = ConfigMap | ConfigList | ConfigScalar

export interface ConfigMap {
  readonly kind: 'map'
  readonly origin: Origin
  readonly entries: ReadonlyMap<string, ConfigEntry>
}

export interface ConfigEntry {
  /** The origin of the key. */
  readonly origin: Origin
  readonly configured: ConfigNode
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
  /** The path as it is written, if the value is an absolute path. */
  readonly written?: string
  /** The replacement in output; present if the value comes from the environment and may be a secret. */
  readonly shown?: string
  /** Present if variables were substituted. */
  readonly template?: ConfigTemplate
}

/** A text of a config file with variables, which another environment replaces by other values. */
export interface ConfigTemplate {
  readonly text: string
  /** How the text becomes the value. */
  readonly kind: FlagKind
  readonly isSecret: boolean
  readonly isPath: boolean
}

/** Keys of a map or indices of a list, outermost first. */
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

/** A map of values; the origin of a key is that of its value. */
export function mapOf(
  entries: Iterable<readonly [key: string, node: ConfigNode]>,
  origin: Origin,
): ConfigMap {
  const located = [...entries].map(([key, node]) => [key, { origin: node.origin, configured: node }] as const)
  return { kind: 'map', origin, entries: new Map(located) }
}

/** A value from the command line that no flag set. */
export const COMMAND_LINE = { kind: 'flag', name: 'command line' } as const satisfies Origin

/** An option set by a word of the command line. */
export function fromWord(option: string, value: string): ConfigMap {
  return mapOf([[option, { kind: 'scalar', origin: COMMAND_LINE, value }]], COMMAND_LINE)
}

/** The values without their origins. */
export function toData(node: ConfigNode): unknown {
  switch (node.kind) {
    case 'scalar':
      return node.value
    case 'list':
      return node.items.map(toData)
    case 'map':
      return Object.fromEntries([...node.entries].map(([key, entry]) => [key, toData(entry.configured)]))
  }
}

/** All values, however deep. */
export function scalarsIn(node: ConfigNode): readonly ConfigScalar[] {
  if (node.kind === 'scalar') return [node]
  return node.kind === 'list'
    ? node.items.flatMap(scalarsIn)
    : [...node.entries.values()].flatMap((entry) => scalarsIn(entry.configured))
}

/** Merges layers: the last one wins; maps are merged key by key. */
export function mergeMaps(first: ConfigMap, ...upper: readonly ConfigMap[]): ConfigMap {
  const entries = new Map(first.entries)
  for (const layer of upper) {
    for (const [key, entry] of layer.entries) {
      const below = entries.get(key)?.configured
      entries.set(
        key,
        below?.kind === 'map' && entry.configured.kind === 'map'
          ? { origin: entry.origin, configured: mergeMaps(below, entry.configured) }
          : entry,
      )
    }
  }
  return { kind: 'map', origin: upper.at(-1)?.origin ?? first.origin, entries }
}

/** The node at a path; undefined if there is none. */
export function nodeAt(node: ConfigNode, path: ConfigPath): ConfigNode | undefined {
  const [step, ...rest] = path
  if (step === undefined) return node
  const next = childOf(node, step)
  return next && nodeAt(next.configured, rest)
}

/**
 * The origin of a problem at a path, or of the nearest parent.
 *
 * @param ofKey - Whether the problem is the key instead of its value.
 */
export function originAt(node: ConfigNode, path: ConfigPath, ofKey = false): Origin {
  const [step, ...rest] = path
  if (step === undefined) return node.origin
  const next = childOf(node, step)
  if (!next) return node.origin
  return ofKey && rest.length === 0 ? next.origin : originAt(next.configured, rest, ofKey)
}

function childOf(node: ConfigNode, step: string | number): ConfigEntry | undefined {
  if (node.kind === 'map') return node.entries.get(String(step))
  const item = node.kind === 'list' ? node.items[Number(step)] : undefined
  return item && { origin: item.origin, configured: item }
}

/** The text for messages: `--port`, `WASM_SERVE_PORT` or `wasm-serve.yaml:3:7`. */
export function renderOrigin(origin: Origin): string {
  return origin.kind === 'file' ? `${origin.file}:${origin.line}:${origin.column}` : origin.name
}
