import { expect, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { listen } from '../support/serve.ts'

/** A guest that leaks 4 KiB in each call, and may have 4 MiB: a thousand calls. */
const LEAKING = { plugin: guest('leak'), memoryMax: 64 } as const

const REQUESTS = 5_000

/** @returns what came of some thousands of requests, each with a body of its own. */
async function ask(url: string) {
  const load = startLoad({ url, connections: 20 })
  await load.answered(REQUESTS)
  return load.stop()
}

test.each([
  'inline',
  'workers',
] as const)('a guest that leaks answers for ever (%s): it is replaced before its memory is full', async (engine) => {
  const { url } = await listen({ ...LEAKING, engine, recycleMemory: 2 * 1_048_576 })
  expect(await ask(url)).toMatchObject({ non2xx: 0, wrong: 0, resets: 0, refused: 0 })
})

test('one that is not replaced in time fails, and nobody else gets its answers', async () => {
  const { url } = await listen({ ...LEAKING, recycleMemory: 64 * 1_048_576 })
  const { non2xx, wrong } = await ask(url)
  expect(non2xx).toBeGreaterThan(2)
  expect(wrong).toBe(0)
})
