import { describe, expect, test } from 'vitest'
import type { RouteOptions } from '../../src/options/options.ts'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { listen } from '../support/serve.ts'

const HELLO = new URL('../../plugins/hello/hello.wasm', import.meta.url).pathname

/** The ways to serve that may not change what a client gets. */
const ways: readonly Partial<RouteOptions>[] = [
  { runtime: 'kernel' },
  { runtime: 'kernel', isolation: 'fresh' },
  { runtime: 'kernel', recycle: 7 },
  { runtime: 'sdk' },
]

describe.each(ways)('%o', (way) => {
  test("the article's load, 300 requests over 100 connections, gets each client its own answer", async () => {
    const { url } = await listen({ plugin: HELLO, ...way })
    const load = startLoad({
      url,
      connections: 100,
      isAnswer: (answer, body) => answer === `{"message":"🦀 Hello ${body}"}`,
    })
    await load.answered(300)
    const counts = await load.stop()
    expect(counts.answers).toBeGreaterThanOrEqual(300)
    expect(counts).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
  })

  test('a guest that traps for some clients costs the others nothing', async () => {
    const { url } = await listen({ plugin: guest('trap'), ...way })
    const healthy = startLoad({ url, connections: 50, body: () => 'ok' })
    const trapping = startLoad({ url, connections: 10, body: (id) => `trap ${id}` })
    await Promise.all([healthy.answered(500), trapping.answered(50)])
    const [well, ill] = await Promise.all([healthy.stop(), trapping.stop()])
    expect(well).toMatchObject({ wrong: 0, non2xx: 0, resets: 0 })
    expect(ill.non2xx).toBe(ill.answers)
  })
})
