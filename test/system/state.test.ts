import { expect, onTestFinished, test } from 'vitest'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import { guest } from '../support/guest.ts'
import { describeState, inWorkers, kvPlugin, mount, routesOf } from '../support/state-suite.ts'
import { newFolder } from '../support/stores.ts'

const memory = async () => 'memory:'
const lmdb = async () => `lmdb:${newFolder()}`

describeState('memory, with guests of the sdk inline', memory, { runtime: 'sdk' })
describeState('memory, with guests in workers', memory, inWorkers)
describeState('memory, with guests in processes', memory, { engine: 'subprocess' })
describeState('lmdb, with fresh instances in workers', lmdb, { isolation: 'fresh', ...inWorkers })

test('a thread that is ended in the middle of a write leaves the store whole, and open to others', async () => {
  const folder = newFolder()
  const options = { engine: 'workers', workers: 2 } as const
  const { post } = await mount(
    [
      ...routesOf(kvPlugin(), ['storm'], { ...options, timeoutMs: 60 }),
      ...routesOf(kvPlugin(), ['set', 'get'], { ...options, timeoutMs: 10_000 }),
    ],
    { store: `lmdb:${folder}` },
  )
  const other = await openLmdbStore({ folder })
  onTestFinished(() => other.close())
  // On a slow machine, a storm may end before its first write.
  for (const key of ['key one ', 'key two ']) await post('/set', key + 'a'.repeat(50_000))
  for (let round = 0; round < 10; round++) {
    const stormed = await Promise.all([post('/storm', 'key one '), post('/storm', 'key two ')])
    expect(stormed.map(({ status }) => status)).toEqual([504, 504])
    for (const key of ['key one ', 'key two ']) {
      const { body } = await post('/get', key)
      expect(body).toBe((body[0] ?? '').repeat(50_000))
      expect(body).toMatch(/^[a-z]/)
    }
    expect(await post('/set', `key last${round}`)).toMatchObject({ status: 200 })
    await other.set('kv', 'of other', Buffer.from(String(round)))
    expect(await post('/get', 'of other')).toMatchObject({ body: String(round) })
  }
})

test('a store that cannot be opened is an error at the start', async () => {
  const routes = routesOf(kvPlugin(), ['get', 'set'])
  await expect(mount(routes, { store: 'redis://127.0.0.1:1' })).rejects.toMatchObject({
    code: 'WASM_SERVE_STORE_UNAVAILABLE',
  })
  await expect(mount(routes, { store: `lmdb:${guest('echo')}` })).rejects.toMatchObject({
    code: 'WASM_SERVE_STORE_INVALID',
  })
})
