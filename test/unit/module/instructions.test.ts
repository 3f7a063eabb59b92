import { expect, test } from 'vitest'
import { ByteReader } from '../../../src/module/bytes.ts'
import { constant, readCode, skipImmediates } from '../../../src/module/instructions.ts'
import { readModule } from '../../../src/module/module.ts'

const UNREACHABLE = 0x00
const BLOCK = 0x02
const END = 0x0b
const DROP = 0x1a
const PREFIXES = [0xfb, 0xfc, 0xfd, 0xfe]

const section = (id: number, content: readonly number[]) => [id, ...leb(content.length), ...content]
const leb = (value: number) => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, value >> 7])

/** What is before the code of a module with one of each kind of thing, all with the index 0. */
const headOf = (...type: readonly number[]) =>
  Buffer.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [2, ...type, 0x60, 0, 0]),
    ...section(3, [1, 1]),
    ...section(4, [1, 0x70, 0, 1]),
    ...section(5, [1, 0, 1]),
    ...section(13, [1, 0, 1]),
    ...section(6, [1, 0x7f, 1, 0x41, 0, END]),
    ...section(9, [1, 1, 0, 1, 0]),
    ...section(12, [1]),
  ])

const DATA = Buffer.from(section(11, [1, 1, 0]))

/** Modules by what type 0 is: functions, a struct, arrays of numbers and of references. */
const FUNCTIONS = headOf(0x60, 0, 0)
const STRUCT = headOf(0x5f, 1, 0x7f, 1)
const ALL_TYPES = [FUNCTIONS, STRUCT, headOf(0x5e, 0x7f, 1), headOf(0x5e, 0x70, 1)]

/** A module with a function with a local, and these instructions. */
function moduleOf(head: Uint8Array, instructions: readonly number[]): Uint8Array<ArrayBuffer> {
  const body = [1, 1, 0x7f, ...instructions]
  return Buffer.concat([head, Buffer.from(section(10, [1, ...leb(body.length), ...body])), DATA])
}

/** Of a block: nothing, numbers, a vector, references. */
const RESULTS = [0x40, 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f, 0x6e]

/** An instruction, in the first block around it and of the first type 0 with which V8 accepts it. */
interface Known {
  readonly bytes: readonly number[]
  readonly isAccepted: (before: readonly number[]) => boolean
  readonly moduleWith: (before: readonly number[]) => Uint8Array<ArrayBuffer>
}

/**
 * An opcode and what follows it, says V8: as few bytes as it accepts. In a block, since no end of it that was taken for an
 * immediate can be spared; behind `unreachable`, where there are operands of all types.
 */
function knownOf(opcode: readonly number[]): Known | undefined {
  const heads = opcode[0] === 0xfb ? ALL_TYPES : [FUNCTIONS]
  for (const length of [0, 1, 2, 3, 4, 5, 8, 16]) {
    for (const first of length === 0 ? [0] : [0, 1, 2, 3]) {
      const bytes = [...opcode, ...Array.from({ length }, (_, i) => (i === 0 ? first : 0))]
      for (const result of RESULTS) {
        const behind = result === 0x40 ? [END] : [END, DROP]
        for (const head of heads) {
          const moduleWith = (before: readonly number[]) =>
            moduleOf(head, [BLOCK, result, ...before, ...bytes, ...behind, END])
          const isAccepted = (before: readonly number[]) => WebAssembly.validate(moduleWith(before))
          if (isAccepted([UNREACHABLE])) return { bytes, isAccepted, moduleWith }
        }
      }
    }
  }
  return undefined
}

/** Constants of all types: numbers, a vector, and null. */
const CONSTANTS = [
  ...[0x41, 0x42].map((code) => [code, 0]),
  [0x43, ...Array<number>(4).fill(0)],
  [0x44, ...Array<number>(8).fill(0)],
  [0xfd, 12, ...Array<number>(16).fill(0)],
  ...[0, 0x70, 0x6f, 0x6e, 0x6d, 0x6c, 0x69].map((type) => [0xd0, type]),
]

/** What puts the operands of an instruction on the stack, says V8, which is asked for one after another. */
function operandsOf({ isAccepted }: Known): readonly (readonly number[])[] {
  const operands: (readonly number[])[] = []
  for (;;) {
    const next = CONSTANTS.find((code) => isAccepted([UNREACHABLE, ...code, ...operands.flat()]))
    if (!next || operands.length === MOST_OPERANDS) return operands
    operands.unshift(next)
  }
}

/** Of those that end the code before them, V8 accepts any number. */
const MOST_OPERANDS = 6

/** How many bytes are skipped; undefined if the instruction is not known. @param next - The bytes that follow. */
function skipped(instruction: readonly number[], next = END): number | undefined {
  const bytes = Uint8Array.from([...instruction, ...Array(40).fill(next)])
  const reader = new ByteReader(bytes, 0, bytes.length, 'test')
  try {
    skipImmediates(reader, readCode(reader))
    return reader.at
  } catch (error) {
    expect(error).toMatchObject({ code: 'WASM_SERVE_PLUGIN_INVALID' })
    return undefined
  }
}

/** `select (result i32)`: its length is in it. */
const SELECT_NUMBER = [0x1c, 1, 0x7f]

/** Those that stand in a structure, and what gives them one. */
const STRUCTURED = [0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x09, 0x0b, 0x18, 0x19, 0x1c, 0x1f]

/** Those of typed references and garbage collection: in code that is never reached, V8 accepts numbers as references. */
const OF_REFERENCES = [0xd3, 0xd4, 0xd5, 0xd6, 0xfb]

test('each instruction that the engine knows is known, is as long as it says, and takes and leaves as many values', () => {
  const plain = Array.from({ length: 0xfb }, (_, opcode) => [opcode])
  const prefixed = PREFIXES.flatMap((prefix) =>
    Array.from({ length: prefix === 0xfd ? 0x140 : 0x60 }, (_, opcode) => [prefix, ...leb(opcode)]),
  )
  const wrong: string[] = []
  let count = 0
  for (const opcode of [...plain, ...prefixed, SELECT_NUMBER]) {
    if (opcode.length === 1 && STRUCTURED.includes(opcode[0] ?? 0)) continue
    const known = knownOf(opcode)
    if (!known) continue
    count++
    if (skipped(known.bytes) !== known.bytes.length) wrong.push(Buffer.from(known.bytes).toString('hex'))
    if (OF_REFERENCES.includes(opcode[0] ?? 0)) continue
    const operands = operandsOf(known)
    for (const before of [operands, [[0x41, 0], ...operands], operands.slice(1)]) {
      const isRead = reads(known.moduleWith(before.flat()))
      if (isRead !== known.isAccepted(before.flat()))
        wrong.push(`${Buffer.from(known.bytes).toString('hex')} behind ${before.length} values`)
    }
  }
  expect(wrong).toEqual([])
  expect(count).toBeGreaterThan(450)
})

function reads(module: Uint8Array): boolean {
  try {
    readModule(module, { limits: 'none', allowGc: true }, 'test')
    return true
  } catch (error) {
    expect(error).toMatchObject({ code: 'WASM_SERVE_PLUGIN_INVALID' })
    return false
  }
}

/** Of garbage collection, which not every engine knows: https://webassembly.github.io/spec/core/binary/instructions.html */
test.each<readonly [string, readonly number[], number, number]>([
  ['struct.new of a field', [0, 0], 1, 1],
  ['struct.new_default', [1, 0], 0, 1],
  ['struct.get', [2, 0, 0], 1, 1],
  ['struct.get_s', [3, 0, 0], 1, 1],
  ['struct.get_u', [4, 0, 0], 1, 1],
  ['struct.set', [5, 0, 0], 2, 0],
  ['array.new', [6, 0], 2, 1],
  ['array.new_default', [7, 0], 1, 1],
  ['array.new_fixed of two', [8, 0, 2], 2, 1],
  ['array.new_data', [9, 0, 0], 2, 1],
  ['array.new_elem', [10, 0, 0], 2, 1],
  ['array.get', [11, 0], 2, 1],
  ['array.get_s', [12, 0], 2, 1],
  ['array.get_u', [13, 0], 2, 1],
  ['array.set', [14, 0], 3, 0],
  ['array.len', [15], 1, 1],
  ['array.fill', [16, 0], 4, 0],
  ['array.copy', [17, 0, 0], 5, 0],
  ['array.init_data', [18, 0, 0], 4, 0],
  ['array.init_elem', [19, 0, 0], 4, 0],
  ['ref.test', [20, 0x6e], 1, 1],
  ['ref.test null', [21, 0x6e], 1, 1],
  ['ref.cast', [22, 0x6e], 1, 1],
  ['ref.cast null', [23, 0x6e], 1, 1],
  ['any.convert_extern', [26], 1, 1],
  ['extern.convert_any', [27], 1, 1],
  ['ref.i31', [28], 1, 1],
  ['i31.get_s', [29], 1, 1],
  ['i31.get_u', [30], 1, 1],
])('%s takes and leaves as many values as the specification says', (_, instruction, pops, pushes) => {
  const isRead = (values: number, left: number) =>
    reads(
      moduleOf(STRUCT, [
        ...Array.from({ length: values }, () => [0x41, 0]).flat(),
        ...[0xfb, ...instruction],
        ...Array<number>(left).fill(DROP),
        END,
      ]),
    )
  expect(isRead(pops, pushes)).toBe(true)
  expect(isRead(pops + 1, pushes)).toBe(false)
  expect(isRead(pops, pushes + 1)).toBe(false)
  expect(pops > 0 && isRead(pops - 1, pushes)).toBe(false)
})

const instructions: readonly (readonly [string, readonly number[]])[] = [
  ['block', [0x02, 0x40]],
  ['block (result i32)', [0x02, 0x7f]],
  ['loop (type 5)', [0x03, 5]],
  ['loop (type 300)', [0x03, 0xac, 2]],
  ['loop (type 64)', [0x03, 0xc0, 0]],
  ['if (result funcref)', [0x04, 0x70]],
  ['if (result (ref null 5))', [0x04, 0x63, 5]],
  ['if (result (ref func))', [0x04, 0x64, 0x70]],
  ['if (result (ref 300))', [0x04, 0x64, 0xac, 2]],
  ['else', [0x05]],
  ['end', [0x0b]],
  ['try (result i64)', [0x06, 0x7e]],
  ['catch 300', [0x07, 0xac, 2]],
  ['rethrow 1', [0x09, 1]],
  ['delegate 1', [0x18, 1]],
  ['catch_all', [0x19]],
  ['br_table', [0x0e, 3, 1, 0xac, 2, 0, 1]],
  ['br_table without labels', [0x0e, 0, 1]],
  ['select (result i32)', [0x1c, 1, 0x7f]],
  ['select (result (ref null 5))', [0x1c, 1, 0x63, 5]],
  ['try_table', [0x1f, 0x40, 0]],
  ['try_table of four', [0x1f, 0x7f, 4, 0, 0xac, 2, 1, 1, 0, 1, 2, 1, 3, 0xac, 2]],
  ['ref.null func', [0xd0, 0x70]],
  ['ref.null extern', [0xd0, 0x6f]],
  ['ref.null any', [0xd0, 0x6e]],
  ['ref.null eq', [0xd0, 0x6d]],
  ['ref.null i31', [0xd0, 0x6c]],
  ['ref.null struct', [0xd0, 0x6b]],
  ['ref.null array', [0xd0, 0x6a]],
  ['ref.null exn', [0xd0, 0x69]],
  ['ref.null none', [0xd0, 0x71]],
  ['ref.null noextern', [0xd0, 0x72]],
  ['ref.null nofunc', [0xd0, 0x73]],
  ['ref.null noexn', [0xd0, 0x74]],
  ['ref.cast (ref null i31)', [0xfb, 23, 0x6c]],
  ['br_on_cast', [0xfb, 24, 3, 0xac, 2, 0x6e, 5]],
  ['i32.load of memory 1', [0x28, 0x42, 1, 0x80, 1]],
  ['i32.load with a padded alignment', [0x28, 0x82, 0, 0x80, 0x80, 0]],
  ['v128.store8_lane of memory 1', [0xfd, 88, 0x40, 1, 8, 15]],
  ['i64.const of 10 bytes', [0x42, ...Array(9).fill(0xff), 0x7f]],
  ['memory.fill with a padded opcode', [0xfc, 0x8b, 0, 0]],
]

test.each(instructions)('%s is passed over', (_name, instruction) => {
  expect(skipped(instruction)).toBe(instruction.length)
})

test.each([
  ['an opcode that nobody has', [0xc5]],
  ['a prefix that nobody has', [0xff, 0]],
  ['a vector operation that nobody has', [0xfd, 0x94, 2]],
  ['a heap type that nobody has', [0xd0, 0x62, 5]],
  ['a block of a type that nobody has', [0x02, 0x65, 0x70]],
  ['a reference to a type that nobody has', [0x02, 0x63, 0x61]],
  ['an access with flags that nobody has', [0x28, 0x20, 0]],
  ['a cast with flags that nobody has', [0xfb, 24, 4, 0, 0, 0]],
  ['a handler that nobody has', [0x1f, 0x40, 1, 4, 0]],
])('%s is not known', (_name, instruction) => {
  expect(skipped(instruction)).toBeUndefined()
  expect(skipped(instruction, 0)).toBeUndefined()
})

test.each([
  [0, [0x00]],
  [63, [0x3f]],
  [64, [0xc0, 0x00]],
  [-1, [0x7f]],
  [-64, [0x40]],
  [-65, [0xbf, 0x7f]],
  [0xffff_ffff, [0x7f]],
])('the constant %i has as few bytes as possible', (value, bytes) => {
  expect(constant(value)).toEqual([0x41, ...bytes])
})
