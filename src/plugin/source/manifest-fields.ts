import { didYouMean } from '../../platform/text.ts'

/** Maximum number of listed problems; further ones are only counted. */
const MAX_PROBLEMS = 50

/** Longer keys are truncated in messages, without suggestions. */
const MAX_KEY = 64

/** The problems of a manifest, each with the path of its key. */
export class Problems {
  readonly #lines: string[] = []
  #count = 0

  get any(): boolean {
    return this.#count > 0
  }

  /** @param message - A function is called only if the problem will be listed. */
  add(path: string, message: string | (() => string)): void {
    this.#count++
    if (this.#count > MAX_PROBLEMS) return
    this.#lines.push(`  ${path || 'manifest'}: ${typeof message === 'string' ? message : message()}`)
  }

  /** One line each. */
  render(): string {
    const more = this.#count - this.#lines.length
    return [...this.#lines, ...(more > 0 ? [`  and ${more} more`] : [])].join('\n')
  }
}

/**
 * The fields of one object of a manifest. A key is accepted in snake_case, like Extism's, and in camelCase, like the
 * JavaScript SDK's. `null` counts as omitted, as in Extism. An invalid value is reported and treated as omitted.
 */
export class Fields {
  readonly #path: string
  readonly #problems: Problems
  readonly #values = new Map<string, unknown>()

  /** @param keys - In snake_case. */
  constructor(value: unknown, path: string, keys: readonly string[], problems: Problems) {
    this.#path = path
    this.#problems = problems
    if (!isRecord(value)) {
      problems.add(path, `must be an object, not ${typeName(value)}`)
      return
    }
    const known = new Map(
      keys.flatMap((key) => [
        [key, key],
        [camelCase(key), key],
      ]),
    )
    for (const [written, item] of Object.entries(value)) {
      const key = known.get(written)
      if (key === undefined)
        problems.add(keyPath(path, written), () => `unknown key${suggestion(written, known.keys())}`)
      else if (item === undefined || item === null) continue
      else if (this.#values.has(key))
        problems.add(keyPath(path, written), `is given twice, as ${key} and as ${camelCase(key)}`)
      else this.#values.set(key, item)
    }
  }

  has(key: string): boolean {
    return this.#values.has(key)
  }

  /** Reports a problem of a key's value. */
  refuse(key: string, message: string): undefined {
    this.#problems.add(keyPath(this.#path, key), message)
  }

  /** The raw value. */
  raw(key: string): unknown {
    return this.#values.get(key)
  }

  text(key: string): string | undefined {
    const value = this.#values.get(key)
    if (value === undefined) return undefined
    if (typeof value !== 'string') return this.refuse(key, `must be text, not ${typeName(value)}`)
    return value === '' ? this.refuse(key, 'must not be empty') : value
  }

  integer(key: string, least: number, most: number): number | undefined {
    const value = this.#values.get(key)
    if (value === undefined) return undefined
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
    const given = typeof value === 'number' ? String(value) : typeName(value)
    return this.refuse(key, `must be a whole number from ${least} to ${most}, not ${given}`)
  }

  list(key: string): readonly unknown[] | undefined {
    const value = this.#values.get(key)
    if (value === undefined || Array.isArray(value)) return value
    return this.refuse(key, `must be a list, not ${typeName(value)}`)
  }

  /** @param whyRefused - Returns the problem of a text, if it has one. */
  texts(key: string, whyRefused: (text: string) => string | undefined): readonly string[] | undefined {
    return this.list(key)?.filter((item, index): item is string => {
      const problem = typeof item === 'string' ? whyRefused(item) : `must be text, not ${typeName(item)}`
      if (problem !== undefined) this.#problems.add(`${keyPath(this.#path, key)}[${index}]`, problem)
      return problem === undefined
    })
  }

  /** An object whose values are all strings, as pairs: so `__proto__` is a normal key. */
  pairs(key: string): readonly (readonly [string, string])[] {
    const value = this.#values.get(key)
    if (value === undefined) return []
    if (!isRecord(value)) {
      this.refuse(key, `must be an object, not ${typeName(value)}`)
      return []
    }
    return Object.entries(value).filter((pair): pair is [string, string] => {
      if (typeof pair[1] === 'string') return true
      const path = keyPath(keyPath(this.#path, key), pair[0])
      this.#problems.add(path, () => `must be text, not ${typeName(pair[1])}`)
      return false
    })
  }

  /** An object with these keys; an empty one if it is omitted. */
  fields(key: string, keys: readonly string[]): Fields {
    return new Fields(this.#values.get(key) ?? {}, keyPath(this.#path, key), keys, this.#problems)
  }
}

function isRecord(value: unknown): value is object {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
  )
}

function camelCase(key: string): string {
  return key.replaceAll(/_[a-z]/g, ([, letter = '']) => letter.toUpperCase())
}

function keyPath(parent: string, key: string): string {
  if (key.length > MAX_KEY) return keyPath(parent, `${key.slice(0, MAX_KEY - 3)}...`)
  if (!/^[\w.-]+$/.test(key)) return `${parent}[${JSON.stringify(key)}]`
  return parent ? `${parent}.${key}` : key
}

function suggestion(key: string, known: Iterable<string>): string {
  return key.length > MAX_KEY ? '' : didYouMean(key, known)
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (value instanceof Uint8Array) return 'bytes'
  switch (typeof value) {
    case 'string':
      return 'text'
    case 'object':
      return 'an object'
    case 'undefined':
      return 'nothing'
    default:
      return `a ${typeof value}`
  }
}
