import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openMemoryStore, SortedKeys } from '../../../src/guest/store/memory.ts'

const FULL = { code: 'WASM_SERVE_STORE_FULL' }

describe('the memory store', () => {
  test('refuses what it has no room for, keeps what was there, and goes on', () => {
    const store = openMemoryStore({ maxBytes: 10_000 })
    store.set('n', 'small', new Uint8Array([1]))
    expect(() => store.set('n', 'large', new Uint8Array(10_000))).toThrow(expect.objectContaining(FULL))
    expect(() => store.set('n', 'small', new Uint8Array(10_000))).toThrow(expect.objectContaining(FULL))
    expect(() => store.compareAndSwap('n', 'large', undefined, new Uint8Array(10_000))).toThrow(
      expect.objectContaining(FULL),
    )
    expect(store.get('n', 'small')).toEqual(new Uint8Array([1]))
    expect(store.get('n', 'large')).toBe(undefined)
    store.set('n', 'other', new Uint8Array(5_000))
    store.set('n', 'other', new Uint8Array(9_000))
    store.delete('n', 'other')
    store.set('n', 'other', new Uint8Array(9_000))
  })

  test('counts keys and entries, so that many small ones fill it too', () => {
    const store = openMemoryStore({ maxBytes: 100_000 })
    const fill = () => {
      for (let i = 0; i < 1_000; i++) store.set('n', `key ${i}`, new Uint8Array())
    }
    expect(fill).toThrow(expect.objectContaining(FULL))
  })

  test('makes room of what has expired before it refuses anything', () => {
    let time = 0
    const store = openMemoryStore({ maxBytes: 100_000, now: () => time })
    for (let i = 0; i < 200; i++) store.set('n', `key ${i}`, new Uint8Array(10), { ttlMs: 1_000 + i })
    time = 2_000
    store.set('n', 'large', new Uint8Array(99_000))
    expect(store.list('n', '', 10)).toEqual({ keys: ['large'] })
  })

  test('replaces what has expired, and counts it once', () => {
    let time = 0
    const store = openMemoryStore({ maxBytes: 10_000, now: () => time })
    for (let i = 0; i < 100; i++) {
      store.set('n', 'key', new Uint8Array(9_000), { ttlMs: 1 })
      time += i % 3
    }
    expect(store.get('n', 'key')).toHaveLength(9_000)
  })

  test('forgets what has expired though nobody asks for it', async () => {
    let time = 0
    const store = openMemoryStore({ maxBytes: 1_000_000, now: () => time })
    for (let i = 0; i < 100_000; i++) {
      store.set('n', `key ${i}`, new Uint8Array(), { ttlMs: 100 })
      time++
    }
    const { keys } = await store.list('n', '', 1_000)
    expect(keys.length).toBeLessThanOrEqual(100)
  })
})

test('sorted keys are those of a set, in order, however they came and went', () => {
  const key = fc.integer({ min: 0, max: 3_000 }).map(String)
  const step = fc.tuple(fc.constantFrom('add', 'add', 'delete'), key)
  fc.assert(
    fc.property(fc.array(step, { maxLength: 4_000, size: 'max' }), key, (steps, start) => {
      const [keys, model] = [new SortedKeys(), new Set<string>()]
      for (const [what, key] of steps) {
        keys[what as 'add' | 'delete'](key)
        model[what as 'add' | 'delete'](key)
      }
      const inOrder = [...model].sort()
      expect([...keys.from('')]).toEqual(inOrder)
      expect([...keys.from(start)]).toEqual(inOrder.filter((key) => key >= start))
    }),
    { numRuns: 30 },
  )
})
