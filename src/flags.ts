import { UsageError } from './errors.ts'
import { routeSchema, serverSchema } from './options-schema.ts'
import { parseSize } from './size.ts'

/** One flag of the command line; each is an option, and takes name, kind and description from the options schema. */
export interface Flag {
  /** As written after `--`. */
  readonly name: string
  /** The environment variable that sets it too. */
  readonly variable: string
  readonly option: string
  readonly scope: 'route' | 'server'
  readonly kind: 'boolean' | 'integer' | 'size' | 'pages' | 'string' | 'pairs'
  readonly description: string
  readonly default: unknown
}

/** Bytes of a page of WebAssembly memory. */
const PAGE = 65_536

interface OptionSchema {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
}

/** Options that are no flags: what the command line says in another way. */
const NO_FLAGS = new Set(['routes', 'plugin', 'url'])

export const flags: readonly Flag[] = [...flagsOf('route', routeSchema), ...flagsOf('server', serverSchema)]

function flagsOf(scope: Flag['scope'], schema: { properties: object }): Flag[] {
  return Object.entries<OptionSchema>(schema.properties as Record<string, OptionSchema>)
    .filter(([option]) => !NO_FLAGS.has(option))
    .map(([option, schema]) => {
      const name = option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
      const variable = `WASM_SERVE_${name.replaceAll('-', '_').toUpperCase()}`
      const { description = '', default: value } = schema
      return { name, variable, option, scope, kind: kindOf(option, schema), description, default: value }
    })
}

function kindOf(option: string, { type }: OptionSchema): Flag['kind'] {
  if (type === 'boolean') return 'boolean'
  if (type === 'object') return 'pairs'
  if (option === 'memoryMax') return 'pages'
  if (type === 'integer') return /(?:Limit|Max)$/.test(option) ? 'size' : 'integer'
  return 'string'
}

/**
 * Reads the text of a flag or its variable as the option's value; its range is checked with the other options.
 *
 * @param where - For the message: `--port`, or `WASM_SERVE_PORT`.
 * @throws {@link UsageError} if it is not of the flag's kind.
 */
export function parseValue(kind: Exclude<Flag['kind'], 'pairs'>, text: string, where: string): unknown {
  switch (kind) {
    case 'string':
      return text
    case 'boolean':
      if (/^(?:true|1|yes|on)$/i.test(text)) return true
      if (/^(?:false|0|no|off)$/i.test(text)) return false
      throw new UsageError(`${where}: must be true or false, not "${text}"`)
    case 'integer':
      if (/^-?\d{1,15}$/.test(text)) return Number(text)
      throw new UsageError(`${where}: must be a whole number, not "${text}"`)
    case 'size': {
      const bytes = parseSize(text)
      if (bytes !== undefined) return bytes
      throw new UsageError(`${where}: must be a size such as 65536, 64KiB or 1MB, not "${text}"`)
    }
    case 'pages': {
      if (/^\d{1,15}$/.test(text)) return Number(text)
      const bytes = parseSize(text)
      if (bytes !== undefined) return Math.floor(bytes / PAGE)
      throw new UsageError(
        `${where}: must be a number of pages of 64 KiB, or a size such as 128MiB, not "${text}"`,
      )
    }
  }
}

/**
 * Reads one `K=V`.
 *
 * @throws {@link UsageError} if there is no `=`, or nothing before it.
 */
export function parsePair(text: string, where: string): [key: string, value: string] {
  const at = text.indexOf('=')
  if (at < 1) throw new UsageError(`${where}: must be KEY=VALUE, not "${text}"`)
  return [text.slice(0, at), text.slice(at + 1)]
}

/**
 * Reads pairs from a variable: a JSON object, or a JSON array of `K=V`.
 *
 * @throws {@link UsageError} if it is neither.
 */
export function parsePairs(text: string, where: string): [key: string, value: string][] {
  const value = parseJson(text)
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) {
    return value.map((item) => parsePair(item, where))
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const pairs = Object.entries(value)
    if (pairs.every((pair): pair is [string, string] => typeof pair[1] === 'string')) return pairs
  }
  throw new UsageError(
    `${where}: must be a JSON object of strings, or a JSON array of "KEY=VALUE", not ${text}`,
  )
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the caller names what was expected
  }
}
