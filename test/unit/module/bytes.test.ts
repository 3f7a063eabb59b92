import { describe, expect, test } from 'vitest'
import { ByteReader, concat, leb } from '../../../src/module/bytes.ts'

const readerOf = (...bytes: readonly number[]) =>
  new ByteReader(Uint8Array.from(bytes), 0, bytes.length, 'test')

const INVALID = expect.objectContaining({ code: 'WASM_SERVE_PLUGIN_INVALID' })

/** Encodes a signed number in as few bytes as possible. */
function signedLeb(value: bigint): number[] {
  const bytes: number[] = []
  for (let rest = value; ; rest >>= 7n) {
    const low = Number(rest & 0x7fn)
    const isLast = rest >= -64n && rest < 64n
    bytes.push(isLast ? low : low | 0x80)
    if (isLast) return bytes
  }
}

/** Powers of 2, and the numbers beside them. */
const near = (bits: readonly number[]) =>
  bits.flatMap((bit) => [2n ** BigInt(bit) - 1n, 2n ** BigInt(bit), 2n ** BigInt(bit) + 1n])

describe('a number', () => {
  test.each([0n, ...near([6, 7, 13, 14, 20, 21, 27, 28, 31]), 2n ** 32n - 1n])('of 32 bits: %i', (value) => {
    const reader = readerOf(...leb(value), 9)
    expect([reader.u32(), reader.byte(), reader.done]).toEqual([Number(value), 9, true])
    expect(leb(Number(value))).toEqual(leb(value))
  })

  test.each([
    0n,
    ...near([7, 14, 28, 31, 32, 35, 49, 56, 62, 63]),
    2n ** 64n - 1n,
  ])('of 64 bits: %i', (value) => {
    const reader = readerOf(...leb(value), 9)
    expect([reader.u64(), reader.byte(), reader.done]).toEqual([value, 9, true])
    const skipped = readerOf(...leb(value), 9)
    skipped.skipNumber()
    expect(skipped.byte()).toBe(9)
  })

  test.each([
    0n,
    ...near([5, 6, 7, 12, 13, 14, 20, 27, 31]).flatMap((value) => [value, -value]),
  ])('of 33 bits with a sign: %i', (value) => {
    const reader = readerOf(...signedLeb(value), 9)
    expect([reader.s33(), reader.byte()]).toEqual([Number(value), 9])
  })

  test.each([
    [0, [0]],
    [127, [0x7f]],
    [128, [0x80, 1]],
    [2 ** 32 - 1, [0xff, 0xff, 0xff, 0xff, 0x0f]],
    [2n ** 64n - 1n, [...Array<number>(9).fill(0xff), 1]],
  ])('%i is written in as few bytes as possible', (value, bytes) => {
    expect([...leb(value)]).toEqual(bytes)
  })

  test('may have more bytes than it needs, up to its size', () => {
    expect(readerOf(0x81, 0x80, 0x80, 0x80, 0x00).u32()).toBe(1)
    expect(readerOf(0xff, 0x80, 0x80, 0x80, 0x00).s33()).toBe(0x7f)
    expect(readerOf(0x81, ...Array<number>(8).fill(0x80), 0x00).u64()).toBe(1n)
  })

  const ALL_SET = (count: number) => Array<number>(count).fill(0xff)

  test.each<readonly [string, readonly number[], (reader: ByteReader) => unknown]>([
    ['32 bits', [...ALL_SET(4), 0x10], (reader) => reader.u32()],
    ['64 bits', [...ALL_SET(9), 0x02], (reader) => reader.u64()],
    ['33 bits', [...ALL_SET(5), 0x00], (reader) => reader.s33()],
    ['64 bits that are skipped', [...ALL_SET(10), 0x00], (reader) => reader.skipNumber()],
  ])('of more than %s is refused', (_, bytes, read) => {
    expect(() => read(readerOf(...bytes, 0, 0, 0))).toThrow(INVALID)
  })

  test.each<readonly [string, (reader: ByteReader) => unknown]>([
    ['32 bits', (reader) => reader.u32()],
    ['64 bits', (reader) => reader.u64()],
    ['33 bits', (reader) => reader.s33()],
    ['any', (reader) => reader.skipNumber()],
    ['a name', (reader) => reader.name()],
  ])('that ends too early is refused, though other bytes follow: %s', (_, read) => {
    for (const bytes of [[], [0x80], [0x80, 0x80]])
      expect(() => read(new ByteReader(Uint8Array.of(...bytes, 1, 1), 0, bytes.length, 'test'))).toThrow(
        INVALID,
      )
  })
})

test('a part has its own end, and what is behind it is next', () => {
  const reader = readerOf(1, 2, 3, 4)
  reader.byte()
  const part = reader.part(2)
  expect([part.at, part.end, part.byte(), part.done, part.byte(), part.done]).toEqual([
    1,
    3,
    2,
    false,
    3,
    true,
  ])
  expect([part.peek(), reader.peek(), reader.byte(), reader.peek(), reader.done]).toEqual([0, 4, 4, 0, true])
  expect(() => part.byte()).toThrow(INVALID)
})

test('as many bytes as are left can be skipped, and no more', () => {
  const reader = readerOf(1, 2, 3)
  reader.byte()
  expect(() => reader.skip(3)).toThrow(INVALID)
  reader.skip(2)
  expect(reader.done).toBe(true)
  reader.skip(0)
  expect(() => reader.part(1)).toThrow(INVALID)
})

test('a name is UTF-8, and keeps a mark of byte order', () => {
  const nameOf = (text: string) => readerOf(...leb(Buffer.byteLength(text)), ...Buffer.from(text)).name()
  for (const text of ['', 'a', 'über', '\ufeffa', '\u{1f600}', 'x'.repeat(200)])
    expect(nameOf(text)).toBe(text)
  for (const bytes of [
    [1, 0xff],
    [2, 0xc3],
    [2, 0xc3, 0x28],
    [3, 0xed, 0xa0, 0x80],
  ])
    expect(() => readerOf(...bytes).name()).toThrow(INVALID)
})

test('a failure names the plug-in and the place', () => {
  const reader = new ByteReader(Uint8Array.of(0, 0, 0), 2, 3, 'hello')
  expect(() => reader.fail('it is odd')).toThrow(/hello.*it is odd.*2/s)
})

test('parts are put together in their order', () => {
  expect([...concat([Uint8Array.of(1, 2), new Uint8Array(), Uint8Array.of(3)])]).toEqual([1, 2, 3])
  expect(concat([])).toHaveLength(0)
})
