import { expect, test } from 'vitest'
import type { RouteOptions } from '../../src/options/options.ts'
import { changing } from '../support/change.ts'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { startServerProcess } from '../support/serve-process.ts'

const ECHO: RouteOptions = { plugin: guest('echo') }
const UPPER: RouteOptions = { plugin: guest('upper') }

for (const [name, engine] of [
  ['inline', {}],
  ['workers', { workers: 1, spareWorkers: 0 }],
] as const) {
  test(
    `50 changes under load cost no request, and no answer is wrong (${name})`,
    { timeout: 120_000 },
    async () => {
      const { attempt, to, url } = await changing([{ ...ECHO, ...engine }])
      const load = startLoad({
        url: `${url}/`,
        connections: 30,
        body: (id) => `id ${id}`,
        isAnswer: (answer, body) => answer === body || answer === body.toUpperCase(),
      })
      for (let change = 0; change < 50; change++) {
        const next = change % 2 === 0 ? UPPER : ECHO
        const [record] = await Promise.all([attempt(to([{ ...next, ...engine }])), load.answered(30)])
        expect(record).toMatchObject({ ok: true, revision: change + 2, routes: 1 })
      }
      await load.answered(100)
      expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0, closing: 0 })
    },
  )
}

test('50 changes leave nothing behind: no memory, no thread, no handle', { timeout: 120_000 }, async () => {
  const routes = (change: number) => [
    { plugin: guest(change % 2 ? 'echo' : 'upper'), url: '/inline' },
    { plugin: guest(change % 2 ? 'upper' : 'echo'), url: '/thread', workers: 1, spareWorkers: 0 },
  ]
  const server = await startServerProcess({ routes: routes(1) })
  const changes = async (from: number, to: number) => {
    for (let change = from; change < to; change++) {
      expect(await server.change({ routes: routes(change) })).toMatchObject({ ok: true })
      const answer = await fetch(`${server.url}/inline`, { method: 'POST', body: 'abc' })
      expect(await answer.text()).toBe(change % 2 ? 'abc' : 'ABC')
    }
  }
  await changes(0, 50) // what is compiled and cached once
  const before = await server.measure()
  await changes(50, 100)
  const after = await server.measure()
  expect(after.warnings).toEqual([])
  expect(after.handles).toEqual(before.handles)
  expect(after.memory.heapUsed / before.memory.heapUsed).toBeLessThan(1.25)
  expect(after.memory.rss / before.memory.rss).toBeLessThan(1.25)
})
