import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { openRedisFleet } from '../../src/deploy/fleet/redis-fleet-store.ts'
import { KEPT_REVISIONS, testFleetStore } from '../support/fleet-store-suite.ts'
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
  })
}
