import fc from 'fast-check'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  KEY_MAX,
  LIST_MAX,
  NAMESPACE_MAX,
  type Store,
  type StoreEntry,
  TTL_MAX,
  VALUE_MAX,
} from '../../src/guest/store/store.ts'
import { StoreModel } from './store-model.ts'
import type { StoreKind } from './stores.ts'

const INVALID = { code: 'WASM_SERVE_KV_ARGUMENT_INVALID' }
const TOO_LARGE = { code: 'WASM_SERVE_KV_VALUE_TOO_LARGE' }

const bytes = (text: string) => new Uint8Array(Buffer.from(text))
const text = (value: Uint8Array | undefined) => value && Buffer.from(value).toString()

/** Converts a synchronous exception into a rejection. */
const later = async <T>(run: () => T | Promise<T>): Promise<T> => run()

/** All keys, page by page. */
async function keysOf(store: Store, namespace: string, prefix = '', limit = LIST_MAX): Promise<string[]> {
  const keys: string[] = []
  let cursor: string | undefined
  do {
    const page = await store.list(namespace, prefix, limit, cursor)
    expect(page.keys.length).toBeLessThanOrEqual(limit)
    keys.push(...page.keys)
    cursor = page.cursor
  } while (cursor !== undefined)
  return keys
}

/** A store with nothing in any namespace: the tests of a Redis share it. */
async function openEmpty(open: () => Promise<Store>): Promise<Store> {
  const store = await open()
  await store.restore([], true)
  return store
}

/** All that is in a store, in order; nothing in it is wrong. */
async function entriesOf(store: Store): Promise<StoreEntry[]> {
  const entries: StoreEntry[] = []
  for await (const entry of store.entries()) {
    if ('fault' in entry) throw new Error(entry.fault)
    entries.push(entry)
  }
  const place = ({ namespace, key }: StoreEntry) => `${namespace}\0${key}`
  return entries.sort((a, b) => (place(a) < place(b) ? -1 : 1))
}

/** Polls for a condition without an event, such as the clock of another process. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 2))
}

/** The shared suite of all stores. */
export const describeStore = ({ kind, open }: StoreKind) =>
  describe(`the ${kind} store`, () => {
    let number = 0
    let space = ''
    beforeEach(() => {
      space = `${kind} ${number++}` // the tests share a Redis
    })

    test('gives what was set, byte for byte', async () => {
      const store = await open()
      const all = Uint8Array.from({ length: 256 }, (_, i) => i)
      expect(await store.get(space, 'key')).toBe(undefined)
      await store.set(space, 'key', all)
      expect(await store.get(space, 'key')).toEqual(all)
      await store.set(space, 'key', bytes('other'))
      expect(text(await store.get(space, 'key'))).toBe('other')
    })

    test('tells an empty value from none', async () => {
      const store = await open()
      await store.set(space, 'empty', new Uint8Array())
      expect(await store.get(space, 'empty')).toEqual(new Uint8Array())
      expect(await keysOf(store, space)).toEqual(['empty'])
      expect(await store.delete(space, 'empty')).toBe(true)
      expect(await store.get(space, 'empty')).toBe(undefined)
    })

    test('says of its reads and writes whether they answer at once', async () => {
      const store = await open()
      const reads = [store.get(space, 'k'), store.list(space, '', 1)]
      const writes = [
        store.set(space, 'k', bytes('v')),
        store.delete(space, 'k'),
        store.compareAndSwap(space, 'k', undefined, bytes('v')),
      ]
      const isLater = (answer: unknown) => answer instanceof Promise
      expect(reads.map(isLater)).toEqual(reads.map(() => store.sync === 'none'))
      expect(writes.map(isLater)).toEqual(writes.map(() => store.sync !== 'all'))
      await Promise.all([...reads, ...writes])
    })

    test('keeps nothing of the array that it was given, and gives away nothing of its own', async () => {
      const store = await open()
      const given = new Uint8Array(Buffer.from('..value..').subarray(2, 7))
      const shared = new Uint8Array(given.buffer, 0, 5)
      const writing = store.set(space, 'key', shared)
      if (!(writing instanceof Promise)) shared.fill(0)
      await writing
      const read = await store.get(space, 'key')
      expect(text(read)).toBe('value')
      expect(read?.buffer.byteLength).toBe(5)
      read?.fill(0)
      expect(text(await store.get(space, 'key'))).toBe('value')
    })

    test('keeps namespaces apart, whatever their names', async () => {
      const store = await open()
      const names = ['a', 'a:', 'a:b', 'a%3A', '{a}', 'ä', ' ', '*', 'x'.repeat(NAMESPACE_MAX)]
      const spaces = names.map((name) => `${name}${space}`.slice(-NAMESPACE_MAX))
      for (const name of spaces) await store.set(name, 'b:key', bytes(name))
      for (const name of spaces) {
        expect(text(await store.get(name, 'b:key'))).toBe(name)
        expect(await keysOf(store, name)).toEqual(['b:key'])
      }
      await store.delete(spaces[0] ?? '', 'b:key')
      expect(text(await store.get(spaces[1] ?? '', 'b:key'))).toBe(spaces[1])
    })

    test('deletes, and says whether there was something', async () => {
      const store = await open()
      await store.set(space, 'key', bytes('x'))
      expect([await store.delete(space, 'key'), await store.delete(space, 'key')]).toEqual([true, false])
      expect(await keysOf(store, space)).toEqual([])
    })

    test('lists keys in the order of their bytes, by prefix and page by page', async () => {
      const store = await open()
      const keys = ['b', 'a', 'a*', 'a[1]', 'aa', 'ab', 'a\u{10000}', 'a\uFFFD', 'a\0', '😄', 'A', 'a?']
      for (const key of keys) await store.set(space, key, bytes('x'))
      const inOrder = [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      const withA = inOrder.filter((key) => key.startsWith('a'))
      expect(await keysOf(store, space)).toEqual(inOrder)
      for (const limit of [1, 2, 3, 100]) expect(await keysOf(store, space, 'a', limit)).toEqual(withA)
      expect(await keysOf(store, space, 'a[')).toEqual(['a[1]'])
      expect(await keysOf(store, space, 'zz')).toEqual([])
      expect((await store.list(space, 'a', 5, 'B')).keys).toEqual(withA.slice(0, 5))
      expect((await store.list(space, 'a', 5, 'b')).keys).toEqual([])
    })

    test('lists each key once while others come and go', async () => {
      const store = await open()
      const stay = Array.from({ length: 50 }, (_, i) => `stay ${String(i).padStart(3, '0')}`)
      for (const key of stay) await store.set(space, key, bytes('x'))
      const seen: string[] = []
      let cursor: string | undefined
      for (let i = 0; ; i++) {
        const page = await store.list(space, '', 7, cursor)
        seen.push(...page.keys.filter((key) => key.startsWith('stay')))
        if (page.cursor === undefined) break
        await store.set(space, `come ${i}`, bytes('x'))
        if (page.cursor.startsWith('go')) await store.delete(space, page.cursor)
        await store.set(space, `go ${i}`, bytes('x'))
        cursor = page.cursor
      }
      expect(seen).toEqual(stay)
    })

    test('swaps only what is as expected', async () => {
      const store = await open()
      const swap = (expected: string | undefined, value: string) =>
        store.compareAndSwap(space, 'key', expected === undefined ? undefined : bytes(expected), bytes(value))
      expect(await swap('', 'x')).toBe(false)
      expect(await swap(undefined, 'one')).toBe(true)
      expect(await swap(undefined, 'two')).toBe(false)
      expect(await swap('', 'two')).toBe(false)
      expect(await swap('one!', 'two')).toBe(false)
      expect(await swap('one', '')).toBe(true)
      expect(await swap(undefined, 'three')).toBe(false)
      expect(await swap('', 'three')).toBe(true)
      expect(text(await store.get(space, 'key'))).toBe('three')
    })

    test('loses none of the additions that are made by swaps at the same time', async () => {
      const store = await open()
      await store.set(space, 'count', bytes('0'))
      const addOne = async () => {
        for (;;) {
          const found = await store.get(space, 'count')
          if (await store.compareAndSwap(space, 'count', found, bytes(String(Number(text(found)) + 1))))
            return
        }
      }
      await Promise.all(Array.from({ length: 20 }, addOne))
      expect(text(await store.get(space, 'count'))).toBe('20')
    })

    test('gives to one only what is set if there is none', async () => {
      const store = await open()
      const winners = await Promise.all(
        Array.from({ length: 10 }, (_, i) =>
          store.compareAndSwap(space, 'lock', undefined, bytes(String(i))),
        ),
      )
      expect(winners.filter(Boolean)).toHaveLength(1)
      expect(text(await store.get(space, 'lock'))).toBe(String(winners.indexOf(true)))
    })

    test('forgets what had a time to live; the last write decides', async () => {
      let time = Date.now()
      const store = await open(() => time)
      const pass =
        kind === 'redis'
          ? undefined
          : (ms: number) => {
              time += ms
            }
      await store.set(space, 'short', bytes('x'), { ttlMs: 30 })
      await store.set(space, 'kept', bytes('x'), { ttlMs: 30 })
      await store.set(space, 'kept', bytes('y'))
      await store.set(space, 'longer', bytes('x'), { ttlMs: 30 })
      await store.set(space, 'longer', bytes('y'), { ttlMs: TTL_MAX })
      await store.compareAndSwap(space, 'swapped', undefined, bytes('x'), { ttlMs: 30 })
      pass?.(30)
      await until(async () => !(await store.get(space, 'swapped')) && !(await store.get(space, 'short')))
      expect(await keysOf(store, space)).toEqual(['kept', 'longer'])
      expect(await store.delete(space, 'short')).toBe(false)
      expect(await store.compareAndSwap(space, 'swapped', bytes('x'), bytes('y'))).toBe(false)
      expect(await store.compareAndSwap(space, 'swapped', undefined, bytes('z'))).toBe(true)
      expect(text(await store.get(space, 'swapped'))).toBe('z')
      expect(text(await store.get(space, 'kept'))).toBe('y')
    })

    test('takes keys and values up to their limits, and no more', async () => {
      const store = await open()
      const [largeKey, largeValue] = ['ü'.repeat(KEY_MAX / 2), new Uint8Array(VALUE_MAX).fill(7)]
      await store.set(space, largeKey, largeValue)
      expect(Buffer.compare((await store.get(space, largeKey)) ?? bytes(''), largeValue)).toBe(0)
      expect((await store.list(space, largeKey, 1)).keys).toEqual([largeKey])
      expect(await store.compareAndSwap(space, largeKey, largeValue, bytes('small'))).toBe(true)
      const tooLarge = new Uint8Array(VALUE_MAX + 1)
      await expect(later(() => store.set(space, 'k', tooLarge))).rejects.toMatchObject(TOO_LARGE)
      await expect(later(() => store.compareAndSwap(space, 'k', undefined, tooLarge))).rejects.toMatchObject(
        TOO_LARGE,
      )
      expect(await store.get(space, 'k')).toBe(undefined)
    })

    test.each([
      ['an empty key', '', 'k'],
      ['a key that is too long', `${'ü'.repeat(KEY_MAX / 2)}x`, 'k'],
      ['a key that is no Unicode', '\uD800', 'k'],
      ['no namespace', 'k', ''],
      ['a namespace that is too long', 'k', 'x'.repeat(NAMESPACE_MAX + 1)],
      ['a namespace that is no Unicode', 'k', 'a\uDC00'],
    ])('refuses %s', async (_what, key, namespace) => {
      const store = await open()
      const uses = [
        () => store.get(namespace, key),
        () => store.set(namespace, key, bytes('x')),
        () => store.delete(namespace, key),
        () => store.compareAndSwap(namespace, key, undefined, bytes('x')),
      ]
      for (const use of uses) await expect(later<unknown>(use)).rejects.toMatchObject(INVALID)
    })

    test.each([0, -1, 1.5, Number.NaN, TTL_MAX + 1])('refuses a time to live of %d ms', async (ttlMs) => {
      const store = await open()
      await expect(later(() => store.set(space, 'k', bytes('x'), { ttlMs }))).rejects.toMatchObject(INVALID)
      expect(await store.get(space, 'k')).toBe(undefined)
    })

    test.each([
      ['', 0, undefined],
      ['', LIST_MAX + 1, undefined],
      ['', Number.NaN, undefined],
      ['x'.repeat(KEY_MAX + 1), 1, undefined],
      ['', 1, ''],
      ['', 1, '\uD800'],
    ])('refuses to list %j, %d, %j', async (prefix, limit, cursor) => {
      const store = await open()
      await expect(later(() => store.list(space, prefix, limit, cursor))).rejects.toMatchObject(INVALID)
    })

    test('behaves as a plain map does, whatever is asked in whatever order', async () => {
      const key = fc.constantFrom('a', 'ab', 'abc', 'b', 'ü', '\u{10000}', '\uFFFF')
      const value = fc.uint8Array({ maxLength: 3 })
      const maybe = fc.option(value, { nil: undefined })
      const ttlMs = fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined })
      const step = fc.oneof(
        fc.record({ do: fc.constant('set' as const), key, value, ttlMs }),
        fc.record({ do: fc.constant('get' as const), key }),
        fc.record({ do: fc.constant('delete' as const), key }),
        fc.record({ do: fc.constant('list' as const), key, limit: fc.integer({ min: 1, max: 4 }) }),
        fc.record({ do: fc.constant('swap' as const), key, expected: maybe, value, ttlMs }),
        fc.record({ do: fc.constant('swapFound' as const), key, value, ttlMs }),
        fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 25 }) }),
      )
      let time = Date.now()
      const store = await open(() => time)
      const hasClock = kind !== 'redis'
      let run = 0
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
          const here = `${space} run ${run++}`
          const model = new StoreModel(() => time)
          for (const step of steps) {
            // Redis has its own clock: what expires is tested above.
            const options = 'ttlMs' in step && hasClock ? { ttlMs: step.ttlMs } : {}
            if (step.do === 'wait') time += step.ms
            else if (step.do === 'set') {
              await store.set(here, step.key, step.value, options)
              model.set(step.key, step.value, options.ttlMs)
            } else if (step.do === 'get') expect(await store.get(here, step.key)).toEqual(model.get(step.key))
            else if (step.do === 'delete')
              expect(await store.delete(here, step.key)).toBe(model.delete(step.key))
            else if (step.do === 'list') {
              expect(await keysOf(store, here, step.key, step.limit)).toEqual(model.list(step.key))
            } else {
              const expected = step.do === 'swap' ? step.expected : model.get(step.key)
              expect(await store.compareAndSwap(here, step.key, expected, step.value, options)).toBe(
                model.compareAndSwap(step.key, expected, step.value, options.ttlMs),
              )
            }
          }
          expect(await keysOf(store, here, '', 3)).toEqual(model.list(''))
        }),
        { numRuns: kind === 'lmdb' ? 30 : 100 },
      )
    })

    test('shows all entries of all namespaces, with what remains of their time', async () => {
      const store = await openEmpty(open)
      await store.set('a:b', 'key', bytes('one'))
      await store.set('ä}', 'k:ey', new Uint8Array(), { ttlMs: 60_000 })
      await store.set('a', 'gone', bytes('x'))
      await store.delete('a', 'gone')
      const before = Date.now()
      const entries = await entriesOf(store)
      expect(entries).toEqual([
        { namespace: 'a:b', key: 'key', value: bytes('one') },
        { namespace: 'ä}', key: 'k:ey', value: new Uint8Array(), expiresAt: expect.any(Number) },
      ])
      const left = (entries[1]?.expiresAt ?? 0) - before
      expect([left > 0, left <= 60_000]).toEqual([true, true])
    })

    test('shows each of many entries once', async () => {
      const store = await openEmpty(open)
      const keys = Array.from({ length: 500 }, (_, i) => `key ${i}`).sort()
      await Promise.all(keys.map((key) => store.set('many', key, bytes(key))))
      const entries = await entriesOf(store)
      expect(entries.map(({ key }) => key)).toEqual(keys)
      expect(entries.every(({ key, value }) => text(value) === key)).toBe(true)
    })

    test('is filled from entries if it is empty, and emptied for them only if that is asked', async () => {
      const store = await openEmpty(open)
      const expiresAt = Date.now() + 60_000
      const entries = [
        { namespace: 'n', key: 'stays', value: bytes('x') },
        { namespace: 'n', key: 'expires', value: bytes('y'), expiresAt },
        { namespace: 'n', key: 'expired', value: bytes('z'), expiresAt: Date.now() - 1 },
      ]
      expect(await store.restore(entries, false)).toBe(2)
      expect(await store.restore(entries, false)).toBe(undefined)
      expect(await keysOf(store, 'n')).toEqual(['expires', 'stays'])
      const [, second] = [...(await entriesOf(store))].sort((a, b) => (a.expiresAt ?? 0) - (b.expiresAt ?? 0))
      expect(Math.abs((second?.expiresAt ?? 0) - expiresAt)).toBeLessThan(1_000)
      expect(await store.restore([{ namespace: 'm', key: 'k', value: bytes('v') }], true)).toBe(1)
      expect(await entriesOf(store)).toEqual([{ namespace: 'm', key: 'k', value: bytes('v') }])
      expect(await keysOf(store, 'n')).toEqual([])
    })

    test('has all entries or none, or says that it failed, if filling it fails', async () => {
      const store = await openEmpty(open)
      await store.set('n', 'before', bytes('x'))
      const failure = new Error('the file ends')
      function* broken() {
        yield { namespace: 'n', key: 'after', value: bytes('y') }
        throw failure
      }
      await expect(store.restore(broken(), true)).rejects.toBe(failure)
      expect(await keysOf(store, 'n')).toEqual(kind === 'lmdb' ? ['before'] : ['after'])
    })

    test('moves a namespace to another name, with what remains of its time', async () => {
      const store = await openEmpty(open)
      const keys = Array.from({ length: 1_100 }, (_, i) => `key ${i}`).sort()
      await Promise.all(keys.map((key) => store.set('old/ä:', key, bytes(key))))
      await store.set('old/ä:', 'expires', bytes('x'), { ttlMs: 60_000 })
      await store.set('old/ä', 'stays', bytes('y'))
      await store.set('new', 'deleted', bytes('z'))
      await store.delete('new', 'deleted')
      expect(await store.rename('old/ä:', 'new', false)).toBe(1_101)
      const entries = await entriesOf(store)
      const moved = entries.filter(({ namespace }) => namespace === 'new')
      expect(moved.map(({ key }) => key)).toEqual(['expires', ...keys])
      expect(moved.every(({ key, value }) => key === 'expires' || text(value) === key)).toBe(true)
      expect((moved[0]?.expiresAt ?? 0) - Date.now()).toBeGreaterThan(0)
      expect(entries.filter(({ namespace }) => namespace !== 'new')).toMatchObject([{ key: 'stays' }])
      expect(await keysOf(store, 'new')).toEqual(['expires', ...keys])
      expect(await store.rename('old/ä:', 'other', false)).toBe(0)
    })

    test('does not move a namespace to one that has keys', async () => {
      const store = await openEmpty(open)
      await store.set('old', 'key', bytes('x'))
      await store.set('new', 'other', bytes('y'))
      const before = await entriesOf(store)
      expect(await store.rename('old', 'new', false)).toBe(undefined)
      expect(await entriesOf(store)).toEqual(before)
    })

    test('moves a namespace to one that has keys, if they may be replaced', async () => {
      const store = await openEmpty(open)
      const keep = (namespace: string, key: string, ttlMs?: number) =>
        store.set(namespace, key, bytes(`${namespace} ${key}`), { ttlMs })
      for (const key of ['a', 'both', 'lasts']) await keep('old', key)
      await keep('old', 'expires', 60_000)
      for (const key of ['both', 'expires', 'z']) await keep('new', key)
      await keep('new', 'lasts', 60_000)
      expect(await store.rename('old', 'new', true)).toBe(4)
      const entries = await entriesOf(store)
      expect(entries.map(({ namespace, key, value }) => [namespace, key, text(value)])).toEqual([
        ['new', 'a', 'old a'],
        ['new', 'both', 'old both'],
        ['new', 'expires', 'old expires'],
        ['new', 'lasts', 'old lasts'],
        ['new', 'z', 'new z'],
      ])
      expect(entries.filter(({ expiresAt }) => expiresAt !== undefined)).toMatchObject([{ key: 'expires' }])
      expect(await keysOf(store, 'new')).toEqual(['a', 'both', 'expires', 'lasts', 'z'])
      expect(await store.rename('old', 'new', true)).toBe(0)
      expect(await keysOf(store, 'new')).toHaveLength(5)
    })

    test('can be closed twice', async () => {
      const store = await open()
      await store.set(space, 'k', bytes('x'))
      await store.close()
      await store.close()
    })
  })
