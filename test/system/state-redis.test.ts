import { expect, onTestFinished, test } from 'vitest'
import { file } from '../support/guest.ts'
import { kvGuest } from '../support/kv-guest.ts'
import { type RedisServer, type StoreServer, startRedis } from '../support/redis.ts'
import { canWait, code, describeState, inWorkers, kvPlugin, mount, routesOf } from '../support/state-suite.ts'
import { describeWith } from '../support/tools.ts'

async function startOwnRedis(port?: number, program?: StoreServer): Promise<RedisServer> {
  const server = await startRedis([], port, program)
  onTestFinished(() => server.stop())
  return server
}

const openIn = (program?: StoreServer) => async () =>
  `redis://127.0.0.1:${(await startOwnRedis(undefined, program)).port}`

const open = openIn()

describeWith(['valkey-server'], () => {
  describeState('valkey, with guests in workers', openIn('valkey-server'), inWorkers)
})

describeWith(['redis-server'], () => {
  describeState('redis, with guests in workers', open, inWorkers)
  describeState('redis, with guests of the sdk in workers', open, { runtime: 'sdk', ...inWorkers })
  if (canWait) describeState('redis, with guests that wait inline', open, { engine: 'inline' })

  test('guests whose store is redis run in threads', async () => {
    const plugin = file('reader.wasm', kvGuest('get'))
    const { engines } = await mount(routesOf(plugin, ['get']), { store: await open() })
    expect(engines).toEqual(['key-value store'])
  })

  test('a store that goes away and comes back costs the calls in between, not the instance', async () => {
    const server = await startOwnRedis()
    const store = `redis://127.0.0.1:${server.port}`
    const { post } = await mount(routesOf(kvPlugin(), ['set', 'get', 'read'], { ...inWorkers, workers: 1 }), {
      store,
    })
    expect(await post('/set', 'greetingHello')).toMatchObject({ status: 200 })
    expect(await post('/get', 'greeting')).toMatchObject({ body: 'Hello' })
    await server.stop()
    for (let i = 0; i < 3; i++) {
      expect(await post('/get', 'greeting')).toMatchObject(code(-7))
      const read = await post('/read', 'greeting')
      expect(read).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
      expect(JSON.parse(read.body)).toMatchObject({ code: 'WASM_SERVE_HOST_UNAVAILABLE' })
      expect(read.body).not.toContain('127.0.0.1')
    }
    await startOwnRedis(server.port)
    let calls = 4
    for (;;) {
      const answer = await post('/set', 'greetingAgain') // until the client has connected again
      if (answer.status === 200) break
      expect(answer).toMatchObject(code(-7))
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    expect(await post('/get', 'greeting')).toMatchObject({ body: 'Again' })
    expect(await post('/read', 'greeting')).toMatchObject({ body: 'Again' })
    calls += 2
    expect([...(await post('/get', '')).bytes]).toEqual([calls])
  })
})
