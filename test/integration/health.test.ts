import { expect, test } from 'vitest'
import type { ProcessInfo } from '../../src/deploy/processes/supervisor.ts'
import type { ServedRoute } from '../../src/options/served-route.ts'
import { listenAdmin, listenBoth } from '../support/admin.ts'
import { guest } from '../support/guest.ts'

async function ask(url: string): Promise<[status: number, body: unknown]> {
  const answer = await fetch(url)
  return [answer.status, await answer.json()]
}

const serving = (...routes: ServedRoute[]) => ({ server: { url: undefined, routes } })

test('a server is not ready before its routes are loaded, while one of them is in trouble, and when it ends', async () => {
  const well = { url: '/well' } as ServedRoute
  const ill = { url: '/ill', host: 'a.example', trouble: '5 starts in a row failed' } as ServedRoute
  const expected = [
    [{ state: 'starting' }, 503, ['the routes are being loaded']],
    [serving(well), 200, []],
    [serving(well, ill), 503, ['route a.example/ill: 5 starts in a row failed']],
    [{ state: 'draining', ...serving(well) }, 503, ['the server is shutting down']],
  ] as const
  for (const [served, status, reasons] of expected) {
    const { url } = await listenAdmin(served)
    expect(await ask(`${url}/readyz`)).toEqual([status, { ready: status === 200, reasons }])
    expect(await ask(`${url}/healthz`)).toEqual([200, { healthy: true, reasons: [] }])
  }
})

test('it names the processes that cannot start, and those that have a problem', async () => {
  const list = [
    { number: 1, state: 'serving', trouble: '124 of 128 file descriptors are in use' } as ProcessInfo,
    { number: 2, state: 'starting', problem: 'WASM_SERVE_TLS_INVALID' } as ProcessInfo,
  ]
  const { url } = await listenAdmin({ processes: { list } })
  expect(await ask(`${url}/readyz`)).toEqual([
    503,
    {
      ready: false,
      reasons: ['process 1: 124 of 128 file descriptors are in use'],
      processes: [
        { number: 1, state: 'serving' },
        { number: 2, state: 'starting', problem: 'WASM_SERVE_TLS_INVALID' },
      ],
    },
  ])
})

test('of thousands of routes in trouble, the first ones are named and the others are counted', async () => {
  const routes = Array.from(
    { length: 3_000 },
    (_, place) => ({ url: `/p${place}`, ...(place > 0 && { trouble: 'it failed' }) }) as ServedRoute,
  )
  const { url } = await listenAdmin(serving(...routes))
  const [status, body] = await ask(`${url}/readyz`)
  const named = Array.from({ length: 100 }, (_, place) => `route /p${place + 1}: it failed`)
  expect([status, body]).toEqual([503, { ready: false, reasons: [...named, '2899 more routes'] }])
})

test('it is not ready from the moment that it is told to end, while clients are still answered', async () => {
  const server = await listenBoth([{ plugin: guest('echo') }], { drainMs: 300 })
  const drained = server.drain()
  expect(await ask(`${server.adminUrl}/readyz`)).toEqual([
    503,
    { ready: false, reasons: ['the server is shutting down'] },
  ])
  expect(await (await fetch(server.url, { method: 'POST', body: 'still' })).text()).toBe('still')
  await drained
  await expect(fetch(`${server.adminUrl}/readyz`)).rejects.toThrow()
})
