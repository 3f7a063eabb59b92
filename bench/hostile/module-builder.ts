/** Types of values, as the binary format writes them. */
export const I32 = 0x7f
export const I64 = 0x7e

/** Bytes, or nested lists of bytes. */
export type Bytes = number | Uint8Array | readonly Bytes[]

/** A number as unsigned LEB128. */
export function leb(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  while (rest > 127) {
    bytes.push((rest % 128) | 128)
    rest = Math.floor(rest / 128)
  }
  return [...bytes, rest]
}

/** A small number of 0 to 63 or a large one, as signed LEB128. */
export function signed(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  while (rest > 63) {
    bytes.push((rest % 128) | 128)
    rest = Math.floor(rest / 128)
  }
  return [...bytes, rest]
}

export function name(text: string): Bytes {
  const bytes = Buffer.from(text)
  return [leb(bytes.length), bytes]
}

/** A count, followed by the items. */
export function vector(items: readonly Bytes[]): Bytes {
  return [leb(items.length), items]
}

/** So many times the same. */
export function times(count: number, ...bytes: Bytes[]): Uint8Array {
  const one = join(bytes)
  return Buffer.alloc(one.length * count, one)
}

/** The sections of a module; omitted ones are left out. */
export interface Parts {
  readonly types?: readonly Bytes[]
  readonly imports?: readonly Bytes[]
  /** Types of functions. */
  readonly functions?: readonly number[]
  readonly tables?: readonly Bytes[]
  readonly memories?: readonly Bytes[]
  readonly tags?: readonly Bytes[]
  readonly exports?: readonly Bytes[]
  readonly start?: number
  readonly elements?: readonly Bytes[]
  /** Locals and instructions of functions, without their `end`. */
  readonly code?: readonly Bytes[]
  readonly data?: readonly Bytes[]
  readonly custom?: Uint8Array
}

/** Writes a module in the binary format. */
export function buildModule(parts: Parts): Uint8Array {
  const { types, imports, functions, tables, memories, tags, exports, start, elements, code, data, custom } =
    parts
  const bodies = code?.map((body) => {
    const bytes = join([body, 0x0b])
    return [leb(bytes.length), bytes]
  })
  return join([
    [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    listSection(1, types),
    listSection(2, imports),
    listSection(3, functions?.map(leb)),
    listSection(4, tables),
    listSection(5, memories),
    listSection(13, tags),
    listSection(7, exports),
    start === undefined ? [] : section(8, leb(start)),
    listSection(9, elements),
    listSection(10, bodies),
    listSection(11, data),
    custom ? section(0, [name('pad'), custom]) : [],
  ])
}

/** A type of functions. */
export function functionType(params: readonly number[], results: readonly number[]): Bytes {
  return [0x60, vector(params), vector(results)]
}

/** Exports a function. */
export function exported(as: string, index: number): Bytes {
  return [name(as), 0, leb(index)]
}

export function join(bytes: Bytes): Uint8Array {
  const chunks: Uint8Array[] = []
  let small: number[] = []
  const visit = (each: Bytes): void => {
    if (typeof each === 'number') small.push(each)
    else if (each instanceof Uint8Array) {
      chunks.push(Uint8Array.from(small), each)
      small = []
    } else for (const inner of each) visit(inner)
  }
  visit(bytes)
  return Buffer.concat([...chunks, Uint8Array.from(small)])
}

function listSection(id: number, items: readonly Bytes[] | undefined): Bytes {
  return items ? section(id, vector(items)) : []
}

function section(id: number, content: Bytes): Bytes {
  const bytes = join(content)
  return [id, leb(bytes.length), bytes]
}
