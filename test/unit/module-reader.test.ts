import { expect, test } from 'vitest'
import { leb } from '../../src/plugin/binary.ts'
import { Reader } from '../../src/plugin/module-reader.ts'

const NEXT = 0x2a

test.each([
  0,
  127,
  128,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
])('%d is read as it was written, as a number of 32 or 64 bits, up to its end', (number) => {
  const bytes = Uint8Array.of(...leb(number), NEXT)
  const [narrow, wide, skipped] = [new Reader(bytes), new Reader(bytes), new Reader(bytes)]
  expect(narrow.u32()).toBe(number)
  expect(wide.u64()).toBe(BigInt(number))
  skipped.skipNumber()
  expect([narrow.byte(), wide.byte(), skipped.byte()]).toEqual([NEXT, NEXT, NEXT])
})

test.each([2n ** 32n, 2n ** 63n, 2n ** 64n - 1n])('%d is read as it was written', (number) => {
  const reader = new Reader(Uint8Array.of(...leb(number), NEXT))
  expect(reader.u64()).toBe(number)
  expect(reader.byte()).toBe(NEXT)
})

test('the longest form of a number is read to its end', () => {
  const reader = new Reader(Uint8Array.of(0x81, 0x80, 0x80, 0x80, 0x00, NEXT))
  expect(reader.u32()).toBe(1)
  expect(reader.byte()).toBe(NEXT)
})
