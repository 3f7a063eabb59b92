import { createClient } from '@redis/client'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openRedisFleet } from '../../src/deploy/fleet/redis-fleet-store.ts'
import { headOf, KEPT_REVISIONS, reportOf, testFleetStore } from '../support/fleet-store-suite.ts'
import { type RedisServer, STORE_SERVERS, startRedis } from '../support/redis.ts'
import { describeWith } from '../support/tools.ts'

for (const server of STORE_SERVERS) {
  describeWith([server], () => {
    let redis: RedisServer
    let fleets = 0

    beforeAll(async () => {
      redis = await startRedis([], undefined, server)
    })

    afterAll(() => redis.stop())

    testFleetStore('a fleet in Redis', () => {
      fleets++
      const fleet = `test-${fleets}`
      return async () => {
        const store = await openRedisFleet({
          ...{ url: `redis://127.0.0.1:${redis.port}`, fleet, keyPrefix: 'a test:', history: KEPT_REVISIONS },
        })
        onTestFinished(() => store.close())
        return store
      }
    })

    test('a damaged record is an error that names it', async () => {
      const url = `redis://127.0.0.1:${redis.port}`
      const client = createClient({ url })
      await client.connect()
      onTestFinished(() => client.destroy())
      const store = await openRedisFleet({ url, fleet: 'damaged', keyPrefix: '', history: KEPT_REVISIONS })
      onTestFinished(() => store.close())
      const wrong = { ...headOf(1), newest: { ...headOf(1).newest, id: 'a"\r\nb' } }
      await client.hSet('{fleet:damaged}:head', { tag: 'a tag', json: JSON.stringify(wrong) })
      await expect(store.head()).rejects.toThrow('newest.id')
      await client.hSet('{fleet:damaged}:head', { tag: 'a tag', json: '{"newest":' })
      await client.lPush('{fleet:damaged}:revisions', 'null')
      await client.hSet('{fleet:damaged}:nodes', 'a', `${Date.now()} [`)
      for (const [read, name] of [
        [store.head(), 'head'],
        [store.revisions(), 'revision'],
        [store.nodes(), 'report'],
      ] as const)
        await expect(read).rejects.toMatchObject({
          code: 'WASM_SERVE_FLEET_CONTENT_INVALID',
          message: expect.stringContaining(name),
        })
    })

    test('commands that the server refuses are logged once, until it accepts them', async () => {
      const url = `redis://127.0.0.1:${redis.port}`
      const client = createClient({ url })
      await client.connect()
      onTestFinished(() => client.destroy())
      const lines: string[] = []
      const log = { warn: (_: object, message: string) => void lines.push(message), info: () => undefined }
      const store = await openRedisFleet({
        ...{ url, fleet: 'refused', keyPrefix: '', history: KEPT_REVISIONS, log },
      })
      onTestFinished(() => store.close())
      const nodes = '{fleet:refused}:nodes'
      for (let round = 1; round <= 2; round++) {
        await client.set(nodes, 'of another type')
        for (let times = 0; times < 3; times++)
          await expect(store.report(reportOf('a'))).rejects.toMatchObject({
            code: 'WASM_SERVE_FLEET_UNAVAILABLE',
          })
        expect(lines).toEqual(Array(round).fill('the store refuses commands'))
        await client.del(nodes)
        await store.report(reportOf('a'))
      }
    })
  })
}
