import { expect, test } from 'vitest'
import { ChunkedBytes } from '../../../src/platform/chunks.ts'
import { detach } from '../../../src/platform/node-workarounds.ts'

function pieces() {
  const whole = new Uint8Array(20_000)
  const part = new Uint8Array(40_000).subarray(0, 20_000)
  const shared = new Uint8Array(new SharedArrayBuffer(20_000))
  return { whole, part, shared, list: [whole, part, shared] }
}

test('pieces are freed that have their memory for themselves', () => {
  const { whole, part, shared, list } = pieces()
  const bytes = new ChunkedBytes(list, detach)
  bytes.free()
  bytes.free()
  expect([whole, part, shared].map(({ length }) => length)).toEqual([0, 20_000, 20_000])
  expect(bytes.length).toBe(60_000)
})

test('pieces of others are not freed', () => {
  const { whole, list } = pieces()
  new ChunkedBytes(list).free()
  expect(whole.length).toBe(20_000)
})
