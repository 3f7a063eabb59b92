/*
 * Functions that ask much of V8's compilers, of any size: those of known kinds, and random mixes. Local 0 is the parameter,
 * whose value V8 does not know.
 */

/** Code of a function with so many locals beside its parameter, all i32. */
export interface Shape {
  readonly locals: number
  readonly code: readonly number[][]
}

/** Code that leaves the stack as it was. @param place - Counts the parts of a function. */
type Part = (place: number) => number[]

/** The functions beside the one that is measured, and its types, by index. */
const CALLED = { import: 0, nothing: 2, wideResults: 3, wideParams: 4, value: 5 }
const TYPE = { nothing: 0, value: 1 }
const WIDE = 250
const I32 = 0x7f
const VOID = 0x40
const END = [0x0b]

/** A number as LEB128. */
function leb(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  do {
    bytes.push((rest & 127) | (rest > 127 ? 128 : 0))
    rest >>>= 7
  } while (rest > 0)
  return bytes
}

/** As {@link leb}, of a number whose sign bit is clear. */
function constant(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  while (rest > 63) {
    bytes.push((rest & 127) | 128)
    rest >>>= 7
  }
  return [0x41, ...bytes, rest]
}

const get = (local: number) => [0x20, ...leb(local)]
const set = (local: number) => [0x21, ...leb(local)]
const tee = (local: number) => [0x22, ...leb(local)]
const addTo = (local: number, from: number[]) => [...get(local), ...from, 0x6a, ...set(local)]
const load = (at: number) => [...constant(0), 0x28, 2, ...leb(at)]
const store = (value: number[], at: number) => [...constant(0), ...value, 0x36, 2, ...leb(at)]
const branchIf = (label: number) => [0x0d, ...leb(label)]
const branch = (label: number) => [0x0c, ...leb(label)]
const call = (target: number) => [0x10, target]

const repeat = (count: number, part: Part) => Array.from({ length: Math.max(0, count) }, (_, at) => part(at))
const setAll = (locals: number) => repeat(locals, (at) => [...get(0), ...set(at + 1)])
/** Writes the sum of all locals to memory, so that nothing of them can be left out. */
const useAll = (locals: number) => [
  [...constant(0), ...constant(0)],
  ...repeat(locals, (at) => [...get(at + 1), 0x6a]),
  [0x36, 2, 0],
]
/** Returns if the memory begins with zeros, which it does: the function is compiled, and not run. */
const RETURN = [...load(0), 0x45, 0x04, VOID, 0x0f, ...END]

/** By the limit that they reach. Each grows with its argument, which the limits then choose. */
export const SHAPES: Readonly<Record<string, (count: number) => Shape>> = {
  'many locals, branches': (count) => ({
    locals: 1_000,
    code: [
      ...setAll(1_000),
      ...repeat(count, () => [2, VOID, ...get(0), ...branchIf(0), ...END]),
      ...useAll(1_000),
    ],
  }),
  'many locals, ifs in one another': (count) => ({
    locals: 1_000,
    code: [
      ...setAll(1_000),
      ...repeat(count, () => [...get(0), 4, VOID]),
      ...repeat(count, () => END),
      ...useAll(1_000),
    ],
  }),
  'many locals, ifs that set one': (count) => ({
    locals: 1_000,
    code: [
      ...repeat(count, (at) => [
        ...[...get(0), 4, VOID, ...get((at * 7 + 1) % 1_000)],
        ...[...constant(1), 0x6a, ...set(at % 1_000), ...END],
      ]),
      ...useAll(1_000),
    ],
  }),
  'locals that are set': (count) => ({
    locals: 9_900,
    code: [
      ...repeat(count, (at) => [...get(0), ...constant(1), 0x6a, ...set(1 + (at % 9_900))]),
      ...useAll(9_900),
    ],
  }),
  'values on the stack': (count) => ({
    locals: 20,
    code: [
      ...repeat(4_900, (at) => get(at % 20)),
      ...repeat(count, (at) => [...get(0), ...constant(1), 0x6a, ...set(at % 20)]),
      ...repeat(4_900, () => [0x1a]),
    ],
  }),
  'calls of 250 values': (count) => ({
    locals: 0,
    code: repeat(count, () => [...call(CALLED.wideResults), ...call(CALLED.wideParams)]),
  }),
  'values that branches join': (count) => ({
    locals: count,
    code: [
      ...setAll(count),
      [2, VOID],
      ...repeat(count, (at) => [
        ...[...get(0), ...constant(1), 0x6a, ...set(1 + at), ...get(0), ...branchIf(0)],
      ]),
      END,
      ...useAll(count),
    ],
  }),
  'values that branches bring to a loop': (count) => ({
    locals: count,
    code: [
      [3, VOID],
      ...repeat(count, (at) => [...get(at), ...constant(1), 0x6a, ...set(at + 1)]),
      ...repeat(count, () => [...get(0), ...branchIf(0)]),
      END,
      ...useAll(count),
    ],
  }),
  'loops in one another': (count) => ({
    locals: 10,
    code: [
      ...repeat(count, () => [3, VOID]),
      ...repeat(count, (at) => [...[...get(0), ...set(1 + (at % 10)), ...get(0), ...branchIf(0), ...END]]),
      ...useAll(10),
    ],
  }),
  stores: (count) => ({
    locals: 0,
    code: repeat(count, (at) => [...get(0), ...get(0), 0x36, 2, ...leb(128 + (at % 16_000))]),
  }),
  calls: (count) => ({ locals: 0, code: repeat(count, () => call(CALLED.nothing)) }),
  divisions: (count) => ({
    locals: 1,
    code: [...repeat(count, () => [...constant(7), ...get(0), 0x6d, ...set(0)]), ...useAll(1)],
  }),
  'saturating conversions': (count) => ({
    locals: 1,
    code: [...repeat(count, () => [...get(0), 0xb2, 0xfc, 0, ...set(0)]), ...useAll(1)],
  }),
  loops: (count) => ({
    locals: 10,
    code: [
      RETURN,
      ...setAll(10),
      ...repeat(count, () => [3, VOID, ...get(0), ...constant(1), 0x6b, ...tee(0), ...branchIf(0), ...END]),
      ...useAll(10),
    ],
  }),
  'branches to a loop': (count) => ({
    locals: 1,
    code: [
      RETURN,
      [3, VOID],
      ...repeat(count, () => [...get(0), ...constant(1), 0x6a, ...tee(0), ...branchIf(0)]),
      END,
      ...useAll(1),
    ],
  }),
  'conditions that branches join': (count) => ({
    locals: 1,
    code: [...repeat(count, () => [...get(0), 4, VOID, ...addTo(0, constant(1)), ...END]), ...useAll(1)],
  }),
  'clauses that catch': (count) => ({
    locals: 0,
    code: [[6, VOID, ...call(CALLED.nothing)], ...repeat(count, () => [7, 0, 0x1a]), END],
  }),
  'ifs that leave a block': (count) => ({
    locals: 1,
    code: [
      [2, VOID],
      ...repeat(count, (at) => [...get(0), ...constant(at), 0x46, 4, VOID, ...branch(1), ...END]),
      END,
    ],
  }),
  ifs: (count) => ({
    locals: 1,
    code: repeat(count, () => [
      ...[...addTo(0, constant(1)), ...load(0), 4, VOID, ...store(get(0), 0), ...END],
    ]),
  }),
  'values that each branch stores': (count) => ({
    locals: 1,
    code: repeat(count, () => [...[...addTo(0, get(1)), ...load(0), 4, VOID, ...store(get(0), 0), ...END]]),
  }),
  'values that both branches store': (count) => ({
    locals: 1,
    code: repeat(count, () => [
      ...[...addTo(0, get(1)), ...load(0), 4, VOID, ...store(get(0), 0), 5, ...store(get(0), 4), ...END],
    ]),
  }),
  'results of calls at one end': (count) => ({
    locals: 1,
    code: [
      [2, I32],
      ...repeat(count, () => [...call(CALLED.value), ...get(0), ...branchIf(0), 0x1a]),
      [...constant(0), ...END, ...set(1)],
      ...useAll(1),
    ],
  }),
  'loaded values at one end': (count) => ({
    locals: 1,
    code: [
      [2, I32],
      ...repeat(count, (at) => [...load(4 * at), ...get(0), ...branchIf(0), 0x1a]),
      [...constant(0), ...END, ...set(1)],
      ...useAll(1),
    ],
  }),
  'reads of a table': (count) => ({
    locals: 1,
    code: [...repeat(count, () => [...get(0), 0x25, 0, 0xd1, ...set(1)]), ...useAll(1)],
  }),
  'targets of one br_table': (count) => ladder(count, (at) => store(get(0), at)),
  'targets of one br_table that branch': (count) =>
    ladder(count, (at) => [...store(get(0), at), ...load(4), ...branchIf(count - at - 1)]),
}

/** A `br_table` into one of many blocks in one another. All continue at the end of the outermost. */
function ladder(count: number, part: Part, locals = 1): Shape {
  return {
    locals,
    code: [
      ...repeat(count, () => [2, VOID]),
      [...get(0), 0x0e, ...leb(count - 1)],
      ...repeat(count, (at) => leb(at)),
      END,
      ...repeat(count - 1, (at) => [...part(at), ...branch(count - at - 2), ...END]),
      ...useAll(locals),
    ],
  }
}

/** The module of a function, whose export is `f`. */
export function moduleWith({ locals, code }: Shape): Uint8Array {
  const wide: number[] = Array(WIDE).fill(I32)
  const types = [
    [0x60, 0, 0],
    [0x60, 0, 1, I32],
    [0x60, 1, I32, 0],
    [0x60, 0, ...leb(WIDE), ...wide],
    [0x60, ...leb(WIDE), ...wide, 0],
  ]
  const body = [...(locals > 0 ? [1, ...leb(locals), I32] : [0])]
  const bodyBytes = Buffer.concat([
    Buffer.from(body),
    ...code.map((part) => Buffer.from(part)),
    Buffer.from(END),
  ])
  // Those are too long to be inlined, so that calls of them stay.
  const long = (...last: number[]) => Buffer.from([0, ...Array(6_000).fill(1), ...last, ...END])
  const bodies = [
    bodyBytes,
    long(),
    Buffer.from([0, ...wide.flatMap(() => constant(1)), ...END]),
    Buffer.from([0, ...END]),
    long(...load(0)),
  ]
  const list = (items: readonly (number[] | Uint8Array)[]) =>
    Buffer.concat([Buffer.from(leb(items.length)), ...items.map((item) => Buffer.from(item))])
  return Buffer.concat([
    Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]),
    section(1, list(types)),
    section(2, list([[1, 0x65, 1, 0x69, 0, 0]])), // the import e.i
    section(3, list([[2], [0], [3], [4], [1]])),
    section(4, list([[0x70, 0, 16]])),
    section(5, list([[0, 1]])),
    section(13, list([[0, 2]])),
    section(6, list([[I32, 1, ...constant(0), ...END]])),
    section(7, list([[1, 0x66, 0, 1]])),
    section(9, list([[0, ...constant(0), ...END, 2, CALLED.nothing, CALLED.value]])),
    section(10, list(bodies.map((each) => Buffer.concat([Buffer.from(leb(each.length)), each])))),
  ])
}

function section(id: number, content: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([id, ...leb(content.length)]), content])
}

/** A number from 0 to 1, excluding 1. */
export type Random = () => number

/** Mulberry32. */
export function randomBy(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** A random mix of instructions and blocks: its words, and its shape. */
export function randomShape(random: Random): {
  readonly name: string
  readonly shape: (count: number) => Shape
} {
  const words: string[] = []
  const one = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T
  const locals = one([1, 2, 10, 100, 1_000])
  /** A local: always the same, or another for each part. */
  const local = (): ((at: number) => number) => {
    const step = one([0, 0, 1, 7])
    const first = Math.floor(random() * locals)
    return (at) => 1 + ((first + at * step) % locals)
  }
  const parameterOr = () => (random() < 0.3 ? () => 0 : local())
  const value = (): Part => {
    const from = parameterOr()
    const other = local()
    return one<Part>([
      (at) => get(from(at)),
      (at) => get(from(at)),
      (at) => constant(at % 1_000),
      (at) => load(4 * (at % 1_000)),
      (at) => [...get(from(at)), 0x28, 2, ...leb(4 * (at % 1_000))],
      () => call(CALLED.value),
      (at) => [...get(from(at)), ...get(other(at)), 0x6a],
      (at) => [...get(from(at)), ...constant(at % 1_000), 0x46],
      (at) => [...get(from(at)), 0x45],
      () => [0x23, 0],
      (at) => [...get(from(at)), ...constant(at % 60), ...load(4), 0x1b],
      (at) => [...get(from(at)), 0x11, TYPE.value, 0],
      (at) => [...get(from(at)), 0x25, 0, 0xd1],
      (at) => [...get(from(at)), ...constant(3), 0x6f],
      (at) => [...get(from(at)), 0xb2, 0xfc, 0],
      (at) => [...get(from(at)), 0xb7, 0x9f, 0xab],
      (at) => [...get(from(at)), 0xad, 0xa7],
      (at) => [...get(from(at)), 0xfd, 0x11, 0xfd, 0x1b, at % 4],
      () => [0x3f, 0],
      (at) => [...get(from(at)), 0x40, 0],
    ])
  }
  /** Code at a depth of so many labels. */
  const leaf = (depth: number): Part => {
    const from = value()
    const condition = value()
    const to = local()
    const far = random() < 0.5
    const label = (at: number) => (depth === 0 ? 0 : far ? depth - 1 : at % depth)
    const kinds: Record<string, Part> = {
      set: (at) => [...from(at), ...set(to(at))],
      add: (at) => addTo(to(at), from(at)),
      store: (at) => store(from(at), 4 * (at % 1_000)),
      storeAt: (at) => [...condition(at), ...from(at), 0x36, 2, 0],
      call: () => call(CALLED.nothing),
      import: () => call(CALLED.import),
      indirect: (at) => [...condition(at), 0x11, TYPE.nothing, 0],
      wide: () => [...call(CALLED.wideResults), ...call(CALLED.wideParams)],
      global: (at) => [...from(at), 0x24, 0],
      fill: (at) => [...get(0), ...from(at), ...get(0), 0xfc, 11, 0],
      tableSet: (at) => [...condition(at), 0xd2, CALLED.nothing, 0x26, 0],
      if: (at) => [...condition(at), 4, VOID, ...from(at), ...set(to(at)), ...END],
      ifStore: (at) => [...condition(at), 4, VOID, ...store(from(at), 0), ...END],
      ifElse: (at) => [
        ...[...condition(at), 4, VOID, ...from(at), ...set(to(at)), 5, ...store(from(at), 4), ...END],
      ],
      ifValue: (at) => [
        ...condition(at),
        4,
        I32,
        ...from(at),
        5,
        ...constant(at % 50),
        ...END,
        ...set(to(at)),
      ],
      ifReturn: (at) => [...condition(at), 4, VOID, ...store(from(at), 0), 0x0f, ...END],
      ifTrap: (at) => [...condition(at), 4, VOID, 0x00, ...END],
      block: (at) => [2, VOID, ...condition(at), ...branchIf(0), ...from(at), ...set(to(at)), ...END],
      blockValue: (at) => [2, I32, ...from(at), ...condition(at), ...branchIf(0), ...END, ...set(to(at))],
      loop: (at) => [3, VOID, ...addTo(to(at), from(at)), ...condition(at), ...branchIf(0), ...END],
      table: (at) => [
        ...[2, VOID, 2, VOID, 2, VOID, ...condition(at), 0x0e, 3, 0, 1, 2, 0, ...END],
        ...[...from(at), ...set(to(at)), ...branch(1), ...END, ...store(from(at), 8), ...END],
      ],
      try: (at) => [6, VOID, ...call(CALLED.nothing), ...from(at), ...set(to(at)), 0x19, ...END],
      tee: (at) => [...from(at), ...tee(to(at)), 0x45, ...set(to(at))],
    }
    if (depth > 0) {
      kinds.branchIf = (at) => [...condition(at), ...branchIf(label(at))]
      kinds.branchIfSet = (at) => [...from(at), ...set(to(at)), ...condition(at), ...branchIf(label(at))]
      kinds.ifBranch = (at) => [...condition(at), 4, VOID, ...branch(label(at) + 1), ...END]
      kinds.ifSetBranch = (at) => [
        ...[...condition(at), 4, VOID, ...from(at), ...set(to(at)), ...branch(label(at) + 1), ...END],
      ]
      kinds.branchTable = (at) => [
        ...[2, VOID, ...condition(at), 0x0e, 2, 0, ...leb(label(at) + 1), 0, ...END],
      ]
    }
    const name = one(Object.keys(kinds))
    words.push(name)
    return kinds[name] as Part
  }
  const parts = (depth: number): Part => {
    const list = repeat(1 + Math.floor(random() * 3), () => []).map(() => leaf(depth))
    return (at) => list.flatMap((part) => part(at))
  }
  const structure = (): ((count: number) => number[][]) => {
    const name = one([
      'flat',
      'block',
      'loop',
      'nested',
      'ifs',
      'ladder',
      'values',
      'try',
      'chunks',
      'nestedLoops',
    ])
    words.push(`${name}:`)
    if (name === 'flat') {
      const part = parts(0)
      return (count) => repeat(count, part)
    }
    if (name === 'block' || name === 'loop' || name === 'try') {
      const part = parts(1)
      const opened = name === 'block' ? 2 : name === 'loop' ? 3 : 6
      return (count) => [[opened, VOID], ...repeat(count, part), name === 'try' ? [0x19, ...END] : END]
    }
    if (name === 'nested' || name === 'nestedLoops') {
      // Labels beyond those that are open would not be valid: the depth is that of the innermost part.
      const part = parts(2)
      const opened = name === 'nested' ? 2 : 3
      return (count) => [
        [2, VOID, 2, VOID],
        ...repeat(count, () => [opened, VOID]),
        ...repeat(count, (at) => [...part(at), ...END]),
        [...END, ...END],
      ]
    }
    if (name === 'ifs') {
      const condition = value()
      const part = parts(1)
      return (count) => [
        ...repeat(count, (at) => [...condition(at), 4, VOID, ...part(at)]),
        ...repeat(count, () => END),
      ]
    }
    if (name === 'ladder') {
      const part = parts(1)
      const direct = random() < 0.5
      return (count) => [
        ...repeat(count, () => [2, VOID]),
        [...get(0), 0x0e, ...leb(count - 1)],
        ...repeat(count, (at) => leb(at)),
        END,
        ...repeat(count - 1, (at) => [...part(at), ...(direct ? branch(count - at - 2) : []), ...END]),
      ]
    }
    if (name === 'values') {
      const from = value()
      const condition = value()
      const part = parts(0)
      const to = local()
      return (count) => [
        [2, I32],
        ...repeat(count, (at) => [...from(at), ...condition(at), ...branchIf(0), 0x1a, ...part(at)]),
        [...constant(0), ...END, ...set(to(0))],
      ]
    }
    const part = parts(1)
    return (count) =>
      repeat(Math.ceil(count / 50), (chunk) => [
        2,
        VOID,
        ...repeat(50, (at) => part(chunk * 50 + at)).flat(),
        ...END,
      ])
  }
  const structures = random() < 0.7 ? [structure()] : [structure(), structure()]
  const returns = random() < 0.5
  return {
    name: `${locals} locals, ${words.join(' ')}`,
    shape: (count) => ({
      locals,
      code: [
        ...(returns ? [RETURN] : []),
        ...structures.flatMap((each) => each(Math.ceil(count / structures.length))),
        ...useAll(locals),
      ],
    }),
  }
}
