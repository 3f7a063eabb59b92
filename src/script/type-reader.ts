import { TokenReader } from './token-reader.ts'

/** A JSON schema of a type. Empty if it is not known. */
export interface TypeSchema {
  readonly type?: string
  readonly description?: string
  readonly enum?: readonly (string | number | boolean)[]
  readonly nullable?: boolean
  readonly items?: TypeSchema
  readonly properties?: Readonly<Record<string, TypeSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: TypeSchema
}

/** Types that are nested more deeply, or refer to themselves, are not known. */
const MAX_DEPTH = 16

const SIMPLE: Readonly<Record<string, TypeSchema>> = {
  string: { type: 'string' },
  number: { type: 'number' },
  boolean: { type: 'boolean' },
  object: { type: 'object' },
  Date: { type: 'string' },
}

/** Types that add nothing to a union. */
const NOTHING = new Set(['undefined', 'void', 'never'])

/** What is not a type, or one that JSON schemas do not have. */
class NotKnown extends Error {}

/** Reads types of TypeScript, as far as values of JSON have them. */
export class TypeReader {
  readonly #text: string
  readonly #tokens: TokenReader
  readonly #depth: number

  /** @param text - The whole script, which may declare types. */
  constructor(text: string, at: number, depth = 0) {
    this.#text = text
    this.#tokens = new TokenReader(text, at)
    this.#depth = depth
  }

  /** The type here; undefined for `void`, and for a type that is not known. */
  type(): TypeSchema | undefined {
    try {
      return this.#union()
    } catch (error) {
      if (error instanceof NotKnown) return undefined
      throw error
    }
  }

  /** The name or the pattern of a parameter, and what says its type; undefined if there is none. */
  parameter(): { readonly isOptional: boolean; readonly schema: TypeSchema | undefined } | undefined {
    try {
      if (this.#skip(')')) return undefined
      if (this.#peek() === '{' || this.#peek() === '[') this.#skipPattern()
      else this.#next()
      const isMissing = this.#skip('?')
      const schema = this.#skip(':') ? this.#union() : undefined
      const isDefault = this.#skip('=')
      return {
        isOptional: isMissing || isDefault,
        schema: schema ?? (isDefault ? this.#literal() : undefined),
      }
    } catch (error) {
      if (error instanceof NotKnown) return { isOptional: true, schema: undefined }
      throw error
    }
  }

  /** The type of a default value. */
  #literal(): TypeSchema | undefined {
    const token = this.#next()
    if (/^['"`]/.test(token)) return SIMPLE.string
    if (/^\d/.test(token)) return SIMPLE.number
    return token === 'true' || token === 'false' ? SIMPLE.boolean : undefined
  }

  #union(): TypeSchema {
    this.#skip('|')
    const members: (TypeSchema | 'null' | 'nothing')[] = []
    do members.push(this.#member())
    while (this.#skip('|'))
    if (this.#peek() === '&') throw new NotKnown()
    const isNullable = members.includes('null')
    const others = members.filter((member) => typeof member === 'object')
    const [first = {}] = others
    const union = others.length <= 1 ? first : unionOf(others)
    return isNullable && union.type !== undefined ? { ...union, nullable: true } : union
  }

  #member(): TypeSchema | 'null' | 'nothing' {
    const begin = this.#peek()
    if (begin === 'null' || NOTHING.has(begin)) {
      this.#next()
      return begin === 'null' ? 'null' : 'nothing'
    }
    let schema = this.#primary()
    while (this.#skip('[')) {
      this.#expect(']')
      schema = { type: 'array', items: schema }
    }
    return schema
  }

  #primary(): TypeSchema {
    const token = this.#next()
    if (token === 'readonly') return this.#primary()
    if (token === '{') return this.#object()
    if (token === '(') {
      const schema = this.#union()
      this.#expect(')')
      return schema
    }
    if (/^['"]/.test(token)) return { type: 'string', enum: [token.slice(1, -1)] }
    if (/^\d/.test(token)) return { type: 'number', enum: [Number(token)] }
    if (token === 'true' || token === 'false') return { type: 'boolean', enum: [token === 'true'] }
    if (!/^[\w$]/.test(token)) throw new NotKnown()
    return this.#skip('<') ? this.#generic(token) : this.#named(token)
  }

  #named(name: string): TypeSchema {
    const simple = Object.hasOwn(SIMPLE, name) ? SIMPLE[name] : undefined
    if (simple) return simple
    const declared = this.#depth < MAX_DEPTH ? declarationOf(this.#text, name) : undefined
    return declared === undefined ? {} : new TypeReader(this.#text, declared, this.#depth + 1).#union()
  }

  #generic(name: string): TypeSchema {
    const [first = {}, second = {}] = this.#arguments()
    if (name === 'Array' || name === 'ReadonlyArray') return { type: 'array', items: first }
    if (name === 'Promise' || name === 'Readonly') return first
    if (name === 'Partial') return { ...first, required: [] }
    if (name === 'Record') return { type: 'object', additionalProperties: second }
    return {}
  }

  #arguments(): readonly TypeSchema[] {
    const types: TypeSchema[] = []
    do types.push(this.#union())
    while (this.#skip(','))
    this.#expect('>')
    return types
  }

  #object(): TypeSchema {
    const properties = new Map<string, TypeSchema>()
    const required: string[] = []
    for (;;) {
      while (this.#skip(';') || this.#skip(',')) this.#tokens.comment = ''
      if (this.#skip('}')) break
      const token = this.#next()
      const description = textOfComment(this.#tokens.comment)
      this.#tokens.comment = ''
      if (token === '[') throw new NotKnown()
      const name = token === 'readonly' && this.#peek() !== ':' && this.#peek() !== '?' ? this.#next() : token
      const isOptional = this.#skip('?')
      this.#expect(':')
      const schema = this.#union()
      const key = name.replace(/^['"]|['"]$/g, '')
      properties.set(key, description === '' ? schema : { ...schema, description })
      if (!isOptional) required.push(key)
    }
    return { type: 'object', properties: Object.fromEntries(properties), required }
  }

  #skipPattern(): void {
    let depth = 0
    do {
      const token = this.#next()
      if (token === '{' || token === '[' || token === '(') depth++
      else if (token === '}' || token === ']' || token === ')') depth--
    } while (depth > 0)
  }

  #skip(wanted: string): boolean {
    return this.#tokens.skip(wanted)
  }

  #expect(wanted: string): void {
    if (!this.#skip(wanted)) throw new NotKnown()
  }

  #peek(): string {
    return this.#tokens.peek()
  }

  /** @throws {@link NotKnown} at the end. */
  #next(): string {
    const token = this.#tokens.next()
    if (token === '') throw new NotKnown()
    return token
  }
}

/** A union of values of one type is an enumeration. */
function unionOf(members: readonly TypeSchema[]): TypeSchema {
  const types = new Set(members.map(({ type }) => type))
  const [type] = types
  if (types.size > 1 || type === undefined) return {}
  const values = members.map((member) => member.enum)
  if (values.every((each) => each !== undefined)) return { type, enum: values.flat() }
  return type === 'object' || type === 'array' ? {} : { type }
}

/** Where the type of a name begins that the script declares. */
function declarationOf(text: string, name: string): number | undefined {
  const escaped = name.replaceAll('$', '\\$')
  const found = new RegExp(
    `^(?:export[ \\t]+)?(?:type[ \\t]+${escaped}[ \\t]*=|interface[ \\t]+${escaped}[ \\t]*(?=\\{))`,
    'm',
  ).exec(text)
  return found ? found.index + found[0].length : undefined
}

/** The text of a comment, without its stars and its tags. */
export function textOfComment(comment: string): string {
  const lines = linesOfComment(comment)
  const tag = lines.findIndex((line) => line.startsWith('@'))
  return (tag < 0 ? lines : lines.slice(0, tag)).join(' ').trim()
}

export function linesOfComment(comment: string): readonly string[] {
  if (!comment.startsWith('/**')) return []
  return comment
    .slice(3, -2)
    .split('\n')
    .map((line) =>
      line
        .trim()
        .replace(/^\*\s?/, '')
        .trim(),
    )
    .filter((line) => line !== '')
}
