import { expect, test } from 'vitest'
import { ByteReader } from '../../../src/module/bytes.ts'
import { readCode, skipImmediates } from '../../../src/module/instructions.ts'

const UNREACHABLE = 0x00
const BLOCK = 0x02
const END = 0x0b
const DROP = 0x1a
const PREFIXES = [0xfb, 0xfc, 0xfd, 0xfe]

/** What type 0 can be: functions, a struct, arrays of numbers and of references. */
const TYPES = {
  function: [0x60, 0, 0],
  struct: [0x5f, 1, 0x7f, 1],
  numbers: [0x5e, 0x7f, 1],
  references: [0x5e, 0x70, 1],
}

/** A module with one of each kind of thing, all with the index 0, and a function with these instructions. */
function moduleOf(type: readonly number[], instructions: readonly number[]): Uint8Array<ArrayBuffer> {
  const body = [1, 1, 0x7f, ...instructions] // a local
  const code = [1, ...leb(body.length), ...body]
  return Uint8Array.of(
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [2, ...type, 0x60, 0, 0]),
    ...section(3, [1, 1]),
    ...section(4, [1, 0x70, 0, 1]),
    ...section(5, [1, 0, 1]),
    ...section(13, [1, 0, 1]),
    ...section(6, [1, 0x7f, 1, 0x41, 0, END]),
    ...section(9, [1, 1, 0, 1, 0]),
    ...section(12, [1]),
    ...section(10, code),
    ...section(11, [1, 1, 0]),
  )
}

const section = (id: number, content: readonly number[]) => [id, ...leb(content.length), ...content]
const leb = (value: number) => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, value >> 7])

/** Of a block: nothing, numbers, a vector, references. */
const RESULTS = [0x40, 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f, 0x6e]

/**
 * What follows an opcode, says V8: as few bytes as it accepts. In a block, since no end of it that was taken for an
 * immediate can be spared; behind `unreachable`, where there are operands of all types.
 */
function immediatesOf(opcode: readonly number[]): readonly number[] | undefined {
  const types = opcode[0] === 0xfb ? Object.values(TYPES) : [TYPES.function]
  for (const length of [0, 1, 2, 3, 4, 5, 8, 16]) {
    for (const first of length === 0 ? [0] : [0, 1, 2, 3]) {
      const immediates = Array.from({ length }, (_, i) => (i === 0 ? first : 0))
      const isAccepted = RESULTS.some((result) => {
        const behind = result === 0x40 ? [END] : [END, DROP]
        const block = [BLOCK, result, UNREACHABLE, ...opcode, ...immediates, ...behind, END]
        return types.some((type) => WebAssembly.validate(moduleOf(type, block)))
      })
      if (isAccepted) return immediates
    }
  }
  return undefined
}

/** How many bytes are skipped; undefined if the instruction is not known. */
function skipped(instruction: readonly number[]): number | undefined {
  const bytes = Uint8Array.from([...instruction, ...Array(40).fill(END)])
  const reader = new ByteReader(bytes, 0, bytes.length, 'test')
  try {
    skipImmediates(reader, readCode(reader))
    return reader.at
  } catch (error) {
    expect(error).toMatchObject({ code: 'WASM_SERVE_PLUGIN_INVALID' })
    return undefined
  }
}

/** Those that stand in a structure, and what gives them one. */
const STRUCTURED = [0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x09, 0x0b, 0x18, 0x19, 0x1c, 0x1f]

test('each instruction that the engine knows is known, and is as long as it says', () => {
  const plain = Array.from({ length: 0xfb }, (_, opcode) => [opcode])
  const prefixed = PREFIXES.flatMap((prefix) =>
    Array.from({ length: prefix === 0xfd ? 0x140 : 0x60 }, (_, opcode) => [prefix, ...leb(opcode)]),
  )
  const wrong: string[] = []
  let known = 0
  for (const opcode of [...plain, ...prefixed]) {
    if (opcode.length === 1 && STRUCTURED.includes(opcode[0] ?? 0)) continue
    const immediates = immediatesOf(opcode)
    if (!immediates) continue
    known++
    const instruction = [...opcode, ...immediates]
    if (skipped(instruction) !== instruction.length) wrong.push(Buffer.from(instruction).toString('hex'))
  }
  expect(wrong).toEqual([])
  expect(known).toBeGreaterThan(450)
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
  ['ref.null extern', [0xd0, 0x6f]],
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
})
