import { expect, onTestFailed, test, vi } from 'vitest'
import { guest } from '../support/guest.ts'
import { randomOf } from '../support/random.ts'
import { startServerProcess } from '../support/serve-process.ts'
import { stormRoutes } from '../support/stream-exchanges.ts'
import { fillThreads, openParts, storm } from '../support/stream-storm.ts'

/*
 * The short form; test/long/streams.ts is the long one. Once more as it was:
 *
 *   npm run build && STORM_SEED=1 npx vitest run test/system/streams-storm.test.ts
 */

const SEED = Number(process.env.STORM_SEED ?? Math.floor(Math.random() * 2 ** 32))
const STREAMS = 100
const MIB = 2 ** 20

test('among 100 streams with all faults no bytes are crossed, none hangs, and nothing is left', async () => {
  const seed = `STORM_SEED=${SEED}`
  onTestFailed(() => console.error(seed))
  const plugin = guest('storm')
  const server = await startServerProcess({ routes: stormRoutes(plugin) })
  const random = randomOf(SEED)
  let version = 0
  const change = async () => {
    expect(await server.change({ routes: stormRoutes(plugin, ++version) }), seed).toMatchObject({ ok: true })
  }
  const rage = async (count: number) => {
    const { ends, problems } = await storm(server, random, count, 25, change)
    expect(problems, seed).toEqual([])
    await fillThreads(server)
    return ends
  }
  await rage(STREAMS / 4)
  // The last change may still close what was served before, with the connection that it waits for.
  await vi.waitFor(
    async () => {
      const { threads } = openParts(server)
      expect((await server.measure()).handles).not.toHaveProperty('TCPSocketWrap')
      expect(openParts(server).threads).toBe(threads)
    },
    { timeout: 20_000, interval: 200 },
  )
  const before = { ...(await server.measure()), ...openParts(server) }
  const ends = await rage(STREAMS)
  const after = { ...(await server.measure()), ...openParts(server) }
  const { handles, files, threads } = before
  expect(after, seed).toMatchObject({ handles, files, threads, calls: 0 })
  expect(after.warnings, seed).toEqual([])
  const grown = (key: 'arrayBuffers' | 'external') => (after.memory[key] - before.memory[key]) / MIB
  expect(
    [grown('arrayBuffers'), grown('external')].every((mib) => mib < 4),
    seed,
  ).toBe(true)
  const whole = [...ends].reduce((sum, [end, count]) => sum + (end.endsWith(': whole') ? count : 0), 0)
  expect(whole, seed).toBeGreaterThan(STREAMS / 3)
}, 60_000)
