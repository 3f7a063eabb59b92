import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { ask, bystanderRoutes, expectWell } from '../support/faults.ts'
import { file, guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { listenAll } from '../support/serve.ts'
import { type ProcessResources, startServerProcess } from '../support/serve-process.ts'
import { open, post } from '../support/socket.ts'

const functions = () =>
  file(
    'lifecycle.mjs',
    `import { appendFileSync } from 'node:fs'
    export default { env: { relay(context, input) {
      const [, word, path] = context.read(input).text().split(' ')
      if (word === 'die') process.exit(1)
      if (word === 'note') appendFileSync(path, 'x')
      return input
    } } }`,
  )

const zoo = (timeoutMs: number) => ({ url: '/zoo', plugin: guest('zoo'), functions: functions(), timeoutMs })

/** Begins a call that does not return: a call on the same thread that comes back shows that it is served. */
async function loop(origin: string) {
  const client = await open(Number(new URL(origin).port))
  const end = once(client.socket, 'close')
  client.send(post('L', '', '/zoo'))
  return { client, end }
}

/** How long the end may take beyond drain and grace, and some time for a busy machine. */
const END_MS = 1_000 + 4_000

test('SIGTERM under load while a guest does not return costs no other request, and ends in time with 0', async () => {
  const graceMs = 1_500
  const { url, child, ended } = await startServerProcess({
    drainMs: 100,
    graceMs,
    routes: [zoo(600_000), ...bystanderRoutes()],
  })
  const { client, end } = await loop(url)
  const load = startLoad({ url: `${url}/threads`, connections: 30 })
  await load.answered(300)
  const begun = performance.now()
  child.kill('SIGTERM')
  expect(await load.ended).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 30 })
  expect(await ended).toEqual({ code: 0, signal: null })
  expect(performance.now() - begun).toBeLessThan(100 + graceMs + END_MS)
  expect(await end).toEqual([false]) // no reset
  const [answer] = await client.answers()
  expect(JSON.parse(String(answer?.body))).toMatchObject({ status: 503, code: 'WASM_SERVE_SHUTTING_DOWN' })
})

test('after SIGTERM a guest that does not return is answered at its deadline, if that is sooner', async () => {
  const { url, child, ended } = await startServerProcess({
    drainMs: 0,
    graceMs: 20_000,
    routes: [zoo(500), ...bystanderRoutes()],
  })
  const { client } = await loop(url)
  await expectWell(url, '/threads') // so it is there
  child.kill('SIGTERM')
  expect((await client.answers()).map(({ status }) => status)).toEqual([504])
  expect(await ended).toEqual({ code: 0, signal: null })
})

test('a second signal ends a server whose guest does not return at once', async () => {
  const { url, child, ended } = await startServerProcess({
    graceMs: 60_000,
    routes: [zoo(600_000), ...bystanderRoutes()],
  })
  await loop(url)
  await expectWell(url, '/threads')
  const begun = performance.now()
  child.kill('SIGTERM')
  const impatient = setInterval(() => child.kill('SIGTERM'), 50)
  expect(await ended).toEqual({ code: 1, signal: null })
  clearInterval(impatient)
  expect(performance.now() - begun).toBeLessThan(30_000)
})

test.each([
  ['in a thread', { workers: 1 }],
  ['on the event loop', {}],
])('a plug-in whose start does not return %s is refused in time, and the server serves on', async (_, engine) => {
  const { url, replace } = await startServerProcess({ routes: [zoo(20_000), ...bystanderRoutes()] })
  const bad = { url: '/zoo', plugin: guest('start-loop'), startTimeoutMs: 300, ...engine }
  const load = startLoad({ url: `${url}/threads`, connections: 10 })
  await load.answered(50)
  for (let i = 0; i < 3; i++) {
    expect(await replace({ trial: true, routes: [bad] })).toBe('WASM_SERVE_INSTANCE_START_FAILED')
    await expectWell(url, '/zoo')
  }
  await load.answered(50)
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
})

/** How often something is done that must leave nothing behind; more by hand: `REPEAT=5 npx vitest run ...`. */
const REPEAT = Number(process.env.REPEAT ?? 1)

/** Nothing is left of what came and went between. */
function expectFlat(before: ProcessResources, after: ProcessResources): void {
  expect(after.warnings).toEqual([])
  // How many connections they keep is the clients' choice.
  expect({ ...after.handles, TCPSocketWrap: 0 }).toEqual({ ...before.handles, TCPSocketWrap: 0 })
  // In ratios, because a heap settles. The rings alone of a thread that stayed would be half a MiB.
  expect(after.memory.rss / before.memory.rss).toBeLessThan(1.4)
  expect(after.memory.heapUsed / before.memory.heapUsed).toBeLessThan(1.3)
  expect(after.memory.arrayBuffers).toBeLessThan(before.memory.arrayBuffers + 10 * 524_288)
}

test('while apps with threads are swapped 50 times under load, every request gets its own answer, and nothing stays', async () => {
  const routes = bystanderRoutes().map((route) => ({ ...route, spareWorkers: 0 }))
  const { url, replace, measure } = await startServerProcess({ routes })
  const swap = async (times: number) => {
    const loads = ['/inline', '/threads'].map((path) => startLoad({ url: url + path, connections: 20 }))
    for (let i = 0; i < times; i++) {
      expect(await replace({ trial: true, routes })).toBeUndefined()
      if (i % 5 === 0) await Promise.all(loads.map((load) => load.answered(20)))
    }
    for (const load of loads) {
      expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0, closing: 0 })
    }
  }
  await swap(15) // until the memory of threads is used again
  const before = await measure()
  await swap(35 * REPEAT)
  expectFlat(before, await measure())
}, 240_000)

test('the calls of clients that went away while they waited are not run', async () => {
  const [gone, stayed] = [file('gone', ''), file('stayed', '')]
  const running = await listenAll([zoo(3_000), ...bystanderRoutes()])
  onTestFinished(() => running.drain())
  const { client } = await loop(running.url)
  await expectWell(running.url, '/threads') // so it runs
  const leavers = await Promise.all(Array.from({ length: 10 }, () => open(running.port)))
  for (const [i, { send }] of leavers.entries()) {
    send(post(`H note ${gone} ${'.'.repeat(i === 0 ? 50_000 : 0)}`, '', '/zoo'))
  }
  await expectWell(running.url, '/threads') // so they have arrived
  for (const { socket } of leavers) socket.destroy()
  const patient = ask(`${running.url}/zoo`, `H note ${stayed}`)
  expect((await client.answer())?.status).toBe(504)
  expect(await patient).toMatchObject({ status: 200 })
  expect([readFileSync(gone, 'utf8'), readFileSync(stayed, 'utf8')]).toEqual(['', 'x'])
})

test('many threads that were ended leave nothing behind', async () => {
  const routes = [{ ...zoo(20), workers: 2, spareWorkers: 1 }, ...bystanderRoutes()]
  const { url, measure } = await startServerProcess({ routes })
  const end = async (threads: number) => {
    const lane = async () => {
      for (let i = 0; i < threads / 2; i++) {
        const isDeath = i % 4 === 0
        const { status } = await ask(`${url}/zoo`, isDeath ? 'H die' : 'L')
        expect(isDeath ? [500, 504] : [504]).toContain(status) // on a busy machine death takes its time
      }
    }
    await Promise.all([lane(), lane()])
  }
  await end(30)
  const before = await measure()
  await end(50 * REPEAT)
  expectFlat(before, await measure())
  await expectWell(url, '/threads')
}, 300_000)
