import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join as joinPath } from 'node:path'
import { randomOf } from '../../test/support/random.ts'
import {
  type Bytes,
  buildModule,
  exported,
  functionType,
  I32,
  I64,
  join,
  leb,
  name,
  signed,
} from '../hostile/module-builder.ts'

/** A folder of plug-ins, all with different bytes: V8 would share the code of equal ones. */
export interface ManyPlugins {
  readonly folder: string
  /** Names of plug-ins of 9 KiB: `plugins/hello-c`. */
  readonly small: readonly string[]
  /** Names of plug-ins of 2 MiB, which echo. */
  readonly large: readonly string[]
}

/** Writes them into a folder that exists until the bench ends. */
export function writePlugins(smallCount: number, largeCount: number): ManyPlugins {
  const folder = mkdtempSync(joinPath(tmpdir(), 'wasm-serve-many-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const write = (kind: string, bytes: Uint8Array, count: number) =>
    Array.from({ length: count }, (_, i) => {
      writeFileSync(joinPath(folder, `${kind}-${i}.wasm`), numbered(bytes, i))
      return `${kind}-${i}`
    })
  return {
    folder,
    small: write('small', smallModule(), smallCount),
    large: write('large', largeModule(), largeCount),
  }
}

export function smallModule(): Uint8Array {
  return readFileSync('plugins/hello-c/hello.wasm')
}

/** The same module with other bytes: a custom section with a number. */
export function numbered(module: Uint8Array, number: number): Uint8Array {
  const section = join([name('n'), leb(number)])
  return join([module, 0, leb(section.length), section])
}

export const FUNCTIONS = 2_000

const STATEMENTS = 75

/**
 * A module of 2 MiB, nearly all of it code: functions of arithmetic, memory accesses, branches and calls, as a compiler
 * writes them. Its export runs some of them, and echoes.
 *
 * @param readers - How many of the functions read 8 bytes of a block, with a call that merging the kernel replaces.
 */
export function largeModule(readers = 0): Uint8Array {
  const random = randomOf(1)
  const host = (field: string, type: number): Bytes => [name('extism:host/env'), name(field), 0, leb(type)]
  const first = readers > 0 ? LOAD_U64 + 1 : LOAD_U64
  const bodies = Array.from({ length: FUNCTIONS }, (_, i) => functionBody(i, first, i < readers, random))
  const answer = [
    [leb(0)],
    ...Array.from({ length: CALLED }, (_, i) => [I32_CONST, signed(i), CALL, leb(first + i), DROP]),
    [CALL, leb(0), CALL, leb(1), CALL, leb(2), I32_CONST, 0],
  ]
  return buildModule({
    types: [
      functionType([], [I64]),
      functionType([I64, I64], []),
      functionType([I32], [I32]),
      functionType([], [I32]),
      functionType([I64], [I64]),
    ],
    imports: [
      host('input_offset', 0),
      host('input_length', 0),
      host('output_set', 1),
      ...(readers > 0 ? [host('load_u64', 4)] : []),
    ],
    functions: [...bodies.map(() => 2), 3],
    memories: [[0, 1]],
    exports: [exported('answer', first + FUNCTIONS)],
    code: [...bodies, answer],
  })
}

/** The index of `load_u64`, if it is imported, and otherwise of the first function that is not. */
const LOAD_U64 = 3

/** How many functions a call of the plug-in runs. */
const CALLED = 20

const [I32_CONST, CALL, DROP, LOCAL_GET, LOCAL_SET] = [0x41, 0x10, 0x1a, 0x20, 0x21] as const
const [I32_LOAD, I32_STORE, IF, END, I32_AND, I32_EQ] = [0x28, 0x36, 0x04, 0x0b, 0x71, 0x46] as const
const [I64_EXTEND_I32_U, NO_RESULT] = [0xad, 0x40] as const

/** i32.add, sub, mul, and, or, xor, shl. */
const OPERATORS = [0x6a, 0x6b, 0x6c, 0x71, 0x72, 0x73, 0x74] as const

const LOCALS = 8

function functionBody(index: number, first: number, isReader: boolean, random: () => number): Bytes {
  const below = (count: number) => Math.floor(random() * count)
  const local = () => below(LOCALS)
  const operator = () => OPERATORS[below(OPERATORS.length)] ?? 0x6a
  const constant = () => [I32_CONST, signed(64 + below(1_000_000))]
  const address = () => [LOCAL_GET, local(), I32_CONST, signed(0xff_fc - 64), I32_AND]
  const compute = () => [
    LOCAL_GET,
    local(),
    LOCAL_GET,
    local(),
    constant(),
    operator(),
    operator(),
    LOCAL_SET,
    local(),
  ]
  const next = first + ((index + 1) % FUNCTIONS)
  const read = [LOCAL_GET, 0, I64_EXTEND_I32_U, CALL, leb(LOAD_U64), DROP]
  const statement = (): Bytes => {
    switch (below(8)) {
      case 0:
        return [address(), LOCAL_GET, local(), I32_STORE, 2, leb(below(16))]
      case 1:
        return [address(), I32_LOAD, 2, leb(below(16)), LOCAL_SET, local()]
      case 2:
        return [LOCAL_GET, local(), constant(), I32_EQ, IF, NO_RESULT, compute(), END]
      case 3:
        // Practically never true: no call is deep.
        return [
          LOCAL_GET,
          0,
          I32_CONST,
          signed(123_456_789),
          I32_EQ,
          IF,
          NO_RESULT,
          LOCAL_GET,
          0,
          CALL,
          leb(next),
          DROP,
          END,
        ]
      default:
        return compute()
    }
  }
  return [
    [1, leb(LOCALS - 1), I32],
    isReader ? read : [],
    Array.from({ length: STATEMENTS }, statement),
    [LOCAL_GET, local()],
  ]
}
