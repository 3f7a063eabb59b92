import { expect, onTestFailed, test } from 'vitest'
import { chaosRoutes, HANG_MS, rage, SAME_USER } from '../support/chaos.ts'
import { expectWell } from '../support/faults.ts'
import { guest } from '../support/guest.ts'
import { randomOf } from '../support/random.ts'
import { startServerProcess } from '../support/serve-process.ts'

/*
 * All that can go wrong, at once and at random, for some rounds. By hand, for longer, or once more as it was:
 *
 *   npm run build && CHAOS_ROUNDS=1000 CHAOS_SEED=1 npx vitest run test/system/chaos.test.ts
 *
 * Whether the server's memory grows meanwhile is a check of the bench's guard.
 */

const ROUNDS = Number(process.env.CHAOS_ROUNDS ?? 6)
const SEED = Number(process.env.CHAOS_SEED ?? Math.floor(Math.random() * 2 ** 32))

test(
  'in chaos no answer is wrong, no request hangs, every failure has its name, and nothing stays',
  async () => {
    const seed = `CHAOS_SEED=${SEED}`
    onTestFailed(() => console.error(seed))
    const routes = chaosRoutes(guest('zoo'), true)
    const server = await startServerProcess({ routes, subprocessUser: SAME_USER })
    const random = randomOf(SEED)
    const enrage = async (rounds: number) => {
      expect(await rage(server, routes, random, rounds), seed).toEqual([])
      for (const path of ['/two', '/processes', '/inline']) await expectWell(server.url, path)
    }
    await enrage(Math.ceil(ROUNDS / 3))
    const before = await server.measure()
    await enrage(Math.ceil((ROUNDS * 2) / 3))
    const after = await server.measure()
    expect(after.warnings, seed).toEqual([])
    expect(after.handles, seed).toEqual(before.handles)
  },
  ROUNDS * 10_000 + 4 * HANG_MS,
)
