import { expect, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { startServerProcess } from '../support/serve-process.ts'

const ROUTES = 500

test('500 routes with a thread each start, and are answered', async () => {
  const plugin = guest('echo')
  const routes = Array.from({ length: ROUTES }, (_, i) => ({
    url: `/${i}`,
    plugin,
    workers: 1,
    spareWorkers: 0,
  }))
  const { url } = await startServerProcess({ routes })
  for (let i = 0; i < ROUTES; i++) {
    const reply = await fetch(`${url}/${i}`, { method: 'POST', body: `${i}` })
    expect([reply.status, await reply.text()]).toEqual([200, `${i}`])
  }
}, 600_000)

test('with spare threads as well, which come after those that calls need, the first calls are answered while they start', async () => {
  const plugin = guest('echo')
  const routes = Array.from({ length: ROUTES / 5 }, (_, i) => ({ url: `/${i}`, plugin, workers: 1 }))
  const { url } = await startServerProcess({ routes })
  const load = startLoad({ url: `${url}/0`, connections: 5 })
  await load.answered(500)
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
}, 600_000)
