import { leb } from '../module/bytes.ts'
import { CODE, constant } from '../module/instructions.ts'
import { USER_NAMESPACE } from '../module/names.ts'
import { TokenReader } from './token-reader.ts'

/** Types of values of WebAssembly, as Extism's JavaScript compiler names them, with their bytes. */
const TYPES = { I32: 0x7f, I64: 0x7e, F32: 0x7d, F64: 0x7c } as const

type ValueType = keyof typeof TYPES

/** A function of the host that a script declares. */
export interface HostFunction {
  readonly name: string
  readonly params: readonly ValueType[]
  readonly result?: ValueType
}

/** Why a declaration cannot be used. */
export class DeclarationError extends Error {
  /** Its place in the text. */
  readonly at: number

  constructor(message: string, at: number) {
    super(message)
    this.at = at
  }
}

/** How many functions a script can declare, and how many parameters each can have: what the engine has room for. */
const MOST = { functions: 32, params: 16 }

/**
 * Reads the functions of the host that a script declares, in the form of Extism's JavaScript compiler:
 * `declare module 'extism:host' { interface user { add(a: I64, b: I64): I64 } }`.
 *
 * @param text - TypeScript.
 * @throws {@link DeclarationError}
 */
export function readHostFunctions(text: string): readonly HostFunction[] {
  const begin = /\bdeclare[ \t]+module[ \t]+['"]extism:host['"]/.exec(text)
  return begin ? new DeclarationReader(text, begin.index + begin[0].length).functions() : []
}

class DeclarationReader {
  readonly #tokens: TokenReader
  /** Where the last token begins. */
  #last = 0

  constructor(text: string, at: number) {
    this.#tokens = new TokenReader(text, at)
  }

  functions(): readonly HostFunction[] {
    const functions: HostFunction[] = []
    this.#expect('{')
    for (let token = this.#next(); token !== '}'; token = this.#next()) {
      if (token === ';' || token === 'export') continue
      if (token !== 'interface') this.#fail('write "interface user { ... }"')
      if (this.#next() !== 'user')
        this.#fail(`scripts can import functions of ${USER_NAMESPACE} only: write "interface user"`)
      this.#expect('{')
      for (let name = this.#next(); name !== '}'; name = this.#next())
        if (name !== ';' && name !== ',') functions.push(this.#function(name))
    }
    if (functions.length > MOST.functions)
      this.#fail(`it declares ${functions.length} functions of the host: the most are ${MOST.functions}`)
    return functions
  }

  #function(name: string): HostFunction {
    if (!/^[\w$]+$/.test(name)) this.#fail(`${JSON.stringify(name)} is not the name of a function`)
    this.#expect('(')
    const params: ValueType[] = []
    for (let token = this.#next(); token !== ')'; token = this.#next()) {
      if (token === ',') continue
      this.#expect(':')
      params.push(this.#type() ?? this.#fail('a parameter cannot be void'))
    }
    if (params.length > MOST.params)
      this.#fail(`${name} has ${params.length} parameters: the most are ${MOST.params}`)
    this.#expect(':')
    const result = this.#type()
    return { name, params, ...(result && { result }) }
  }

  /** @returns undefined for `void`. */
  #type(): ValueType | undefined {
    const token = this.#next()
    if (token === 'void') return undefined
    if (token === 'PTR') return 'I64'
    if (isValueType(token)) return token
    return this.#fail(
      `${JSON.stringify(token)} is not a type of WebAssembly: write I32, I64, F32, F64 or PTR`,
    )
  }

  #expect(wanted: string): void {
    const token = this.#next()
    if (token !== wanted) this.#fail(`expected ${JSON.stringify(wanted)} and found ${JSON.stringify(token)}`)
  }

  /** @throws {@link DeclarationError} at the end of the text. */
  #next(): string {
    this.#last = this.#tokens.at
    return this.#tokens.next() || this.#fail('the declaration of functions of the host has no end')
  }

  #fail(message: string): never {
    throw new DeclarationError(message, this.#last)
  }
}

function isValueType(text: string): text is ValueType {
  return Object.hasOwn(TYPES, text)
}

/** The type of a function, for a section of types. */
export function renderTypeOf({ params, result }: HostFunction): Uint8Array {
  const results = result ? [result] : []
  const list = (types: readonly ValueType[]) => [...leb(types.length), ...types.map((type) => TYPES[type])]
  return Uint8Array.from([0x60, ...list(params), ...list(results)])
}

/** The most that a store or load may be aligned to: values are at multiples of 8 bytes. */
const LOAD = { I32: [0x28, 2], I64: [0x29, 3], F32: [0x2a, 2], F64: [0x2b, 3] } as const
const STORE = { I32: [0x36, 2], I64: [0x37, 3], F32: [0x38, 2], F64: [0x39, 3] } as const

const PLACE = [0x20, 0]
const VALUES = [0x20, 1]
const IF = [0x04, 0x40]
const EQUAL = 0x46

/**
 * The instructions of `(place, values) -> ()`: calls an imported function with the values at an address, eight bytes each, and writes its
 * result there.
 *
 * @param first - The index of the first function; the others follow.
 */
export function callByPlace(functions: readonly HostFunction[], first: number): readonly number[] {
  return functions.flatMap(({ params, result }, place) => [
    ...[...PLACE, ...constant(place), EQUAL, ...IF],
    ...(result ? VALUES : []),
    ...params.flatMap((type, at) => [...VALUES, ...LOAD[type], ...leb(at * 8)]),
    ...[CODE.call, ...leb(first + place)],
    ...(result ? [...STORE[result], 0] : []),
    CODE.end,
  ])
}
