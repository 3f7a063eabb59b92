import { EventEmitter } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { terminateOrWriteOff, trackThread } from '../../src/engine/stuck-threads.ts'
import { watchGuest } from '../../src/engine/watchdog.ts'
import type { ServedRoute } from '../../src/route/served-route.ts'
import { listenAdmin, listenBoth } from '../support/admin.ts'
import { guest } from '../support/guest.ts'
import { keepLog } from '../support/instance.ts'

async function ask(url: string): Promise<[status: number, body: unknown]> {
  const answer = await fetch(url)
  return [answer.status, await answer.json()]
}

test('a server is not ready before its routes are loaded, while one of them is in trouble, and when it ends', async () => {
  const well = { url: '/well' } as ServedRoute
  const ill = { url: '/ill', host: 'a.example', trouble: '5 starts in a row failed' } as ServedRoute
  const expected = [
    [{ state: 'starting' }, 503, ['the routes are being loaded']],
    [{ routes: [well] }, 200, []],
    [{ routes: [well, ill] }, 503, ['route a.example/ill: 5 starts in a row failed']],
    [{ state: 'draining', routes: [well] }, 503, ['the server is ending']],
  ] as const
  for (const [served, status, reasons] of expected) {
    const { url } = await listenAdmin(served)
    expect(await ask(`${url}/readyz`)).toEqual([status, { ready: status === 200, reasons }])
    expect(await ask(`${url}/healthz`)).toEqual([200, { healthy: true, reasons: [] }])
  }
})

test('it is not ready from the moment that it is told to end, while clients are still answered', async () => {
  const server = await listenBoth([{ plugin: guest('echo') }], { drainMs: 1_000 })
  const drained = server.drain()
  expect(await ask(`${server.adminUrl}/readyz`)).toEqual([
    503,
    { ready: false, reasons: ['the server is ending'] },
  ])
  expect(await (await fetch(server.url, { method: 'POST', body: 'still' })).text()).toBe('still')
  await drained
  await expect(fetch(`${server.adminUrl}/readyz`)).rejects.toThrow()
})

test('it is not healthy while a thread cannot be ended', async () => {
  const { url } = await listenAdmin()
  const thread = Object.assign(new EventEmitter(), {
    threadId: 7,
    terminate: () => new Promise(() => undefined),
  })
  trackThread(thread as unknown as Worker)
  await terminateOrWriteOff(thread as unknown as Worker, keepLog(), 1)
  expect(await ask(`${url}/healthz`)).toEqual([
    503,
    { healthy: false, reasons: ['threads that cannot be ended: 1'] },
  ])
  thread.emit('exit', 1)
  expect(await ask(`${url}/healthz`)).toMatchObject([200, { healthy: true }])
})

test("it is not ready while the watchdog's thread is missing, which is started again until it runs", async () => {
  const { url } = await listenAdmin()
  const guest = { plugin: 'a.wasm', function: 'go', route: '/', stallMs: 60_000 }
  const reports: boolean[] = []
  const told: unknown[] = []
  let [starts, mayStart] = [0, false]
  let isBack: () => void = () => undefined
  const back = new Promise<void>((resolve) => (isBack = resolve))
  const report = (failure: Error | undefined) => {
    reports.push(failure === undefined)
    if (!failure) isBack()
  }
  const start = () => {
    starts++
    if (!mayStart) throw Object.assign(new Error('EMFILE: too many'), { code: 'EMFILE' })
    const worker = new Worker('require("node:worker_threads").parentPort.on("message", () => {})', {
      eval: true,
    })
    const post = worker.postMessage.bind(worker)
    worker.postMessage = (message) => {
      told.push(message)
      post(message)
    }
    onTestFinished(async () => void (await worker.terminate()))
    return worker
  }
  const watches = [watchGuest(guest, report, { start, backoffMs: 1 }), watchGuest(guest, report)]
  expect(await ask(`${url}/readyz`)).toEqual([
    503,
    { ready: false, reasons: [expect.stringMatching(/watchdog.* \(ulimit -n/)] },
  ])
  expect(await ask(`${url}/healthz`)).toMatchObject([200, { healthy: true }])
  while (starts < 4) await new Promise(setImmediate)
  expect(reports).toEqual([false])
  mayStart = true
  await back
  expect(reports).toEqual([false, true])
  expect(told).toHaveLength(4) // the start and the call of both
  expect(await ask(`${url}/readyz`)).toMatchObject([200, { ready: true }])
  for (const watch of watches) watch.close()
})

test('one that ended by itself is missed as well, and none that is not needed any more', async () => {
  const { url } = await listenAdmin()
  const guest = { plugin: 'a.wasm', function: 'go', route: '/', stallMs: 60_000 }
  const failed = new Promise<Error | undefined>((resolve) => {
    const start = () => new Worker('process.exit(3)', { eval: true })
    const watch = watchGuest(guest, resolve, { start, backoffMs: 1_000_000 })
    onTestFinished(() => watch.close())
  })
  expect((await failed)?.message).toContain('3')
  await new Promise(setImmediate)
  expect(await ask(`${url}/readyz`)).toMatchObject([503, { ready: false }])
})
