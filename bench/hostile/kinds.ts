import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import {
  type Bytes,
  buildModule,
  exported,
  functionType,
  I32,
  I64,
  leb,
  name,
  type Parts,
  signed,
  times,
  vector,
} from './module-builder.ts'

/** A kind of hostile module. */
export interface Kind {
  readonly name: string
  /** A description, as a sentence. */
  readonly what: string
  bytes(): Uint8Array
  /** Options of its route; it has a thread and a deadline in any case. */
  readonly route?: object
  /** Ways in which it is tested; default: all. */
  readonly ways?: readonly Way[]
  /** The body for the admin API. */
  readonly encoding?: string
}

/** The way a module reaches a server, and its use. */
export type Way = 'uploaded' | 'watched' | 'called'

export const WAYS: readonly Way[] = ['uploaded', 'watched', 'called']

/** `() -> i32`, the type of a plug-in's function. */
const PLAIN = functionType([], [I32])

/** No locals. */
const NONE = 0

/** Says that all is well. */
const OK: Bytes = [0x41, 0]

/** Instructions by their codes. */
const BLOCK = 2
const LOOP = 3
const IF = 4
const END = 0x0b
const BR = 0x0c
const BR_IF = 0x0d
const BR_TABLE = 0x0e
const DROP = 0x1a
const UNREACHABLE = 0

/** The type of a block without a value. */
const VOID = 0x40

/** A module with one function, `run`. */
function single(body: Bytes, more: Parts = {}): Uint8Array {
  return buildModule({ types: [PLAIN], functions: [0], exports: [exported('run', 0)], code: [body], ...more })
}

/** A module of a size that does nothing, in which there is nothing to compile. */
export function harmless(size: number): Uint8Array {
  const least = single([NONE, OK]).length + 16
  return single([NONE, OK], { custom: randomBytes(Math.max(0, size - least)) })
}

const LOCALS = 40_000

export const KINDS: readonly Kind[] = [
  {
    name: 'many locals',
    what: '40,000 locals and 12,000 branches: each merges all of them when it is compiled',
    bytes: () => single([[1, leb(LOCALS), I64], times(12_000, OK, IF, VOID, END), OK]),
  },
  {
    name: 'big body',
    what: 'a function of 6 MB',
    bytes: () => single([NONE, times(2_000_000, OK, DROP), OK]),
  },
  {
    name: 'deep nesting',
    what: '100,000 blocks, nested',
    bytes: () => single([NONE, times(100_000, BLOCK, VOID), times(100_000, END), OK]),
  },
  {
    name: 'huge br_table',
    what: '60 tables of 60,000 targets',
    bytes: () =>
      single([NONE, times(60, [BLOCK, VOID, OK, BR_TABLE, leb(60_000), times(60_001, 0), END]), OK]),
  },
  {
    name: 'many functions',
    what: '100,000 functions',
    bytes: () => functionsOf(100_000, [NONE, OK]),
  },
  {
    name: 'many types',
    what: '50,000 types, no two of them equal',
    bytes: () =>
      single([NONE, OK], { types: [PLAIN, ...Array.from({ length: 50_000 }, (_, i) => oddType(i))] }),
  },
  {
    name: '300 exports',
    what: '300 functions that can be called',
    bytes: () => exportsOf(300),
  },
  {
    name: '3,000 exports',
    what: '3,000 functions that can be called',
    bytes: () => exportsOf(3_000),
    ways: ['uploaded', 'watched'],
  },
  {
    name: 'many imports',
    what: '100,000 imports that do not exist',
    bytes: () =>
      buildModule({
        types: [PLAIN],
        imports: Array.from({ length: 100_000 }, (_, i) => [name('env'), name(`f${i}`), 0, 0]),
        functions: [0],
        exports: [exported('run', 100_000)],
        code: [[NONE, OK]],
      }),
    ways: ['uploaded', 'watched'],
  },
  {
    name: 'many element segments',
    what: '500,000 segments of a table',
    bytes: () =>
      single([NONE, OK], {
        tables: [[0x70, 0, 1]],
        elements: Array.from({ length: 500_000 }, () => [0, OK, END, 1, 0]),
      }),
  },
  {
    name: 'many data segments',
    what: '100,000 segments of memory',
    bytes: () =>
      single([NONE, OK], {
        memories: [[0, 1]],
        data: Array.from({ length: 100_000 }, () => [0, OK, END, 1, 0]),
      }),
  },
  {
    name: 'large, fresh',
    what: '27 MB of functions on a route with `isolation: fresh`, for which it is rewritten',
    bytes: () => functionsOf(2_700, [NONE, times(3_330, OK, DROP), OK], { memories: [[0, 1]] }),
    route: { isolation: 'fresh' },
  },
  {
    name: 'garbage collection',
    what: 'allocates arrays of the garbage collector without end, and keeps them all',
    bytes: () =>
      single([[1, 1, 0x6e], LOOP, VOID, 0x20, 0, 0x41, signed(1_000), 0xfb, 6, 1, 0x21, 0, BR, 0, END, OK], {
        types: [PLAIN, [0x5e, 0x6e, 1]],
      }),
  },
  {
    name: 'exceptions',
    what: 'throws exceptions with 900 numbers each, without end',
    bytes: () => {
      const caught = [6, VOID, times(900, 0x42, 0), 8, 0, 0x19, END]
      const many = functionType(Array(900).fill(I64), [])
      return single([NONE, LOOP, VOID, caught, BR, 0, END, OK], { types: [PLAIN, many], tags: [[0, 1]] })
    },
  },
  { name: 'infinite loop', what: 'never returns', bytes: () => single([NONE, LOOP, VOID, BR, 0, END, OK]) },
  {
    name: 'memory.fill',
    what: 'fills 62 MiB of memory without end: V8 seldom looks whether it is to end such a loop',
    bytes: () =>
      single([NONE, LOOP, VOID, OK, 0x41, 1, 0x41, signed(65_536_000), 0xfc, 11, 0, BR, 0, END, OK], {
        memories: [[0, leb(1_000)]],
      }),
  },
  {
    name: 'memory.copy',
    what: 'moves 62 MiB of memory by a byte without end',
    bytes: () =>
      single([NONE, LOOP, VOID, OK, 0x41, 1, 0x41, signed(65_535_999), 0xfc, 10, 0, 0, BR, 0, END, OK], {
        memories: [[0, leb(1_000)]],
      }),
  },
  {
    name: 'table.fill',
    what: 'fills a table of 100,000 entries without end',
    bytes: () =>
      single([NONE, LOOP, VOID, OK, 0xd0, 0x70, 0x41, signed(100_000), 0xfc, 17, 0, BR, 0, END, OK], {
        tables: [[0x70, 0, leb(100_000)]],
      }),
  },
  {
    name: 'calls that are optimised',
    what: 'a loop that V8 optimises, in a function with 100,000 calls: the compiler takes CPU time and memory for them',
    bytes: () => {
      const turn = [0x20, 0, 0x41, 1, 0x6a, 0x22, 0, 0x41, signed(50_000_000), 0x49, BR_IF, 0]
      const dead = [0x20, 0, 0x45, IF, VOID, times(100_000, 0x10, 1), END]
      return buildModule({
        types: [PLAIN, functionType([], [])],
        functions: [0, 1],
        exports: [exported('run', 0)],
        code: [[[1, 1, I32], LOOP, VOID, turn, END, dead, OK], [NONE]],
      })
    },
    ways: ['called'],
  },
  {
    name: 'memory growth',
    what: 'grows its memory to the limit, writes to each page, and traps',
    bytes: () => {
      const write = [0x20, 0, 0x41, signed(65_536), 0x6c, 0x41, 1, 0x36, 2, 0]
      const grown = [0x41, 1, 0x40, 0, 0x22, 0, 0x41, 0x7f, 0x47]
      return single([[1, 1, I32], LOOP, VOID, grown, IF, VOID, write, BR, 1, END, END, UNREACHABLE], {
        memories: [[0, 0]],
      })
    },
  },
  {
    name: 'table growth',
    what: 'grows a table until that is refused, and traps',
    bytes: () =>
      single(
        [
          NONE,
          LOOP,
          VOID,
          0xd0,
          0x70,
          0x41,
          signed(10_000),
          0xfc,
          15,
          0,
          0x41,
          0x7f,
          0x47,
          BR_IF,
          0,
          END,
          UNREACHABLE,
        ],
        {
          tables: [[0x70, 0, 1]],
        },
      ),
  },
  { name: 'trap', what: 'traps at once', bytes: () => single([NONE, UNREACHABLE]) },
  { name: 'recursion', what: 'calls itself without end', bytes: () => single([NONE, 0x10, 0]) },
  {
    name: 'start that never returns',
    what: 'its start function never returns',
    bytes: () =>
      buildModule({
        types: [PLAIN, functionType([], [])],
        functions: [0, 1],
        exports: [exported('run', 0)],
        start: 1,
        code: [
          [NONE, OK],
          [NONE, LOOP, VOID, BR, 0, END],
        ],
      }),
  },
  { name: 'flood of logs', what: 'logs without end', bytes: () => talker('x'.repeat(1_000), 'log_info') },
  {
    name: 'huge headers',
    what: 'answers the simplism contract with 8 MB of headers',
    bytes: () => {
      const headers = Array.from({ length: 200_000 }, (_, i) => `"x-${i}":["${'v'.repeat(24)}"]`)
      return talker(`{"header":{${headers.join()}},"code":200,"body":""}`, 'output_set')
    },
    route: { contract: 'simplism' },
    ways: ['called'],
  },
  {
    name: 'giant answer',
    what: 'answers with 256 MiB',
    bytes: () => {
      const env = name('extism:host/env')
      const long = [0x42, signed(268_435_456)]
      return buildModule({
        types: [PLAIN, functionType([I64], [I64]), functionType([I64, I64], [])],
        imports: [
          [env, name('alloc'), 0, 1],
          [env, name('output_set'), 0, 2],
        ],
        functions: [0],
        exports: [exported('run', 2)],
        code: [[NONE, long, 0x10, 0, long, 0x10, 1, OK]],
      })
    },
    ways: ['called'],
  },
  {
    name: 'deep JSON',
    what: 'answers the http contract with 4 MB of arrays, nested',
    bytes: () => talker(`{"body":${'['.repeat(2_000_000)}${']'.repeat(2_000_000)}}`, 'output_set'),
    route: { contract: 'http' },
    ways: ['called'],
  },
  {
    name: 'compressed upload',
    what: 'a module of 60 MB that is compressed to 60 kB (its route is added as of any other)',
    bytes: () => gzipSync(single([NONE, OK], { custom: new Uint8Array(60_000_000) })),
    encoding: 'gzip',
    ways: ['uploaded'],
  },
]

/** So many functions with this body; the first is `run`. */
function functionsOf(count: number, body: Bytes, more: Parts = {}): Uint8Array {
  return single(NONE, { functions: Array(count).fill(0), code: Array(count).fill(body), ...more })
}

/** So many functions, each exported; the first is `run`. */
export function exportsOf(count: number): Uint8Array {
  const exports = Array.from({ length: count }, (_, i) => exported(i === 0 ? 'run' : `run${i}`, i))
  return functionsOf(count, [NONE, OK], { exports })
}

/** The parameters are the bits of a number. */
function oddType(i: number): Bytes {
  return functionType(
    [...(i + 2).toString(2)].map((bit) => (bit === '1' ? I64 : I32)),
    [],
  )
}

/**
 * Writes a text to a block of the host. `output_set`: and answers with it. `log_info`: and logs that again and again.
 */
function talker(text: string, what: 'output_set' | 'log_info'): Uint8Array {
  const bytes = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8))
  const env = name('extism:host/env')
  const long = [0x42, signed(bytes.length)]
  const index = [0x20, 1]
  const copied = [index, 0xa7, 0x29, 3, 0] // i64.load of the text
  const copy = [0x20, 0, index, 0x7c, copied, 0x10, 1, index, 0x42, 8, 0x7c, 0x22, 1, long, 0x54, BR_IF, 0]
  const give = what === 'log_info' ? [LOOP, VOID, 0x20, 0, 0x10, 2, BR, 0, END] : [0x20, 0, long, 0x10, 2]
  return buildModule({
    types: [
      PLAIN,
      functionType([I64], [I64]),
      functionType([I64, I64], []),
      functionType(what === 'log_info' ? [I64] : [I64, I64], []),
    ],
    imports: [
      [env, name('alloc'), 0, 1],
      [env, name('store_u64'), 0, 2],
      [env, name(what), 0, 3],
    ],
    functions: [0],
    memories: [[0, leb(Math.ceil(bytes.length / 65_536))]],
    exports: [exported('run', 3)],
    code: [[vector([[2, I64]]), long, 0x10, 0, 0x21, 0, LOOP, VOID, copy, END, give, OK]],
    data: [[0, OK, END, leb(bytes.length), bytes]],
  })
}
