import { afterAll, beforeAll, expect, test } from 'vitest'
import { CHAOS_FUNCTIONS } from '../support/chaos.ts'
import { ask, bystanderRoutes, expectWell } from '../support/faults.ts'
import { file, guest } from '../support/guest.ts'
import { listenAll } from '../support/serve.ts'

let server: Awaited<ReturnType<typeof listenAll>>

beforeAll(async () => {
  const functions = file('zoo.mjs', 'export default { env: { relay: (_context, input) => input } }')
  const zoo = { plugin: guest('zoo'), functions, memoryMax: 512 }
  const wasi = { plugin: guest('wasi-zoo'), workers: 1 }
  server = await listenAll([
    { url: '/zoo', ...zoo, timeoutMs: 20_000 },
    { url: '/deadline', ...zoo, timeoutMs: 200 },
    { url: '/ends', ...zoo, functions: CHAOS_FUNCTIONS, workers: 1, timeoutMs: 20_000 },
    { url: '/wasi', ...wasi, timeoutMs: 20_000 },
    { url: '/wasi-deadline', ...wasi, timeoutMs: 200 },
    ...bystanderRoutes(),
  ])
})

afterAll(() => server.drain())

test('100 faults of all kinds at a time cost their own calls only', async () => {
  const faults = { T: 500, M: 500, R: 500, E: 409, P: 502, B: 500 }
  const bodies = Array.from({ length: 100 }, (_, i) => {
    const mood = i % 4 === 0 ? Object.keys(faults)[(i / 4) % 6] : 'x'
    return `${mood}${i}`
  })
  const outcomes = await Promise.all(bodies.map((body) => ask(`${server.url}/zoo`, body)))
  for (const [i, { status, body }] of outcomes.entries()) {
    const sent = bodies[i] ?? ''
    const expected = faults[sent.charAt(0) as keyof typeof faults]
    expect([sent, status]).toEqual([sent, expected ?? 200])
    if (!expected) expect(body).toBe(sent)
  }
  await expectWell(server.url, '/zoo')
})
