import { expect, test } from 'vitest'
import { ByteReader, leb } from '../../../src/module/bytes.ts'

const NEXT = 0x2a

const readerOf = (bytes: Uint8Array) => new ByteReader(bytes, 0, bytes.length, 'test')

test.each([
  0,
  127,
  128,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
])('%d is read as it was written, as a number of 32 or 64 bits, up to its end', (number) => {
  const bytes = Uint8Array.of(...leb(number), NEXT)
  const [narrow, wide, skipped] = [readerOf(bytes), readerOf(bytes), readerOf(bytes)]
  expect(narrow.u32()).toBe(number)
  expect(wide.u64()).toBe(BigInt(number))
  skipped.skipNumber()
  expect([narrow.byte(), wide.byte(), skipped.byte()]).toEqual([NEXT, NEXT, NEXT])
})

test.each([2n ** 32n, 2n ** 63n, 2n ** 64n - 1n])('%d is read as it was written', (number) => {
  const reader = readerOf(Uint8Array.of(...leb(number), NEXT))
  expect(reader.u64()).toBe(number)
  expect(reader.byte()).toBe(NEXT)
})

test('the longest form of a number is read to its end', () => {
  const reader = readerOf(Uint8Array.of(0x81, 0x80, 0x80, 0x80, 0x00, NEXT))
  expect(reader.u32()).toBe(1)
  expect(reader.byte()).toBe(NEXT)
})

const INVALID = { code: 'WASM_SERVE_PLUGIN_INVALID' }

test.each([
  ['32 bits', [0xff, 0xff, 0xff, 0xff, 0x1f], (reader: ByteReader) => reader.u32()],
  ['33 bits', [0xff, 0xff, 0xff, 0xff, 0xff, 0], (reader: ByteReader) => reader.s33()],
  ['64 bits', [...Array(9).fill(0xff), 2], (reader: ByteReader) => reader.u64()],
  ['64 bits, which is skipped', [...Array(10).fill(0x80), 0], (reader: ByteReader) => reader.skipNumber()],
])('a number of more than %s is refused, as the engine refuses it', (_bits, bytes, read) => {
  expect(() => read(readerOf(Uint8Array.from(bytes)))).toThrow(expect.objectContaining(INVALID))
})

test('nothing is read beyond the end', () => {
  for (const read of [
    (reader: ByteReader) => reader.u32(),
    (reader: ByteReader) => reader.name(),
    (reader: ByteReader) => reader.part(4),
  ])
    expect(() => read(readerOf(Uint8Array.of(0x83, 0x80)))).toThrow(expect.objectContaining(INVALID))
})
