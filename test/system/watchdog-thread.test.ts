import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { watchGuest } from '../../src/engine/watchdog.ts'
import { listenAdmin } from '../support/admin.ts'

const guest = {
  ...{ plugin: 'a.wasm', function: 'go', route: '/' },
  ...{ stallMs: 60_000, deadlineMs: 0, runsAtStart: false },
}

async function ask(url: string): Promise<[status: number, body: unknown]> {
  const answer = await fetch(url)
  return [answer.status, await answer.json()]
}

test("it is not ready while the watchdog's thread is missing, which is started again until it runs", async () => {
  const { url } = await listenAdmin()
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
  const first = watchGuest(guest, report, { start, backoffMs: 1 })
  const watches = [first, watchGuest(guest, report)]
  first.beginCall()
  first.end()
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
  expect(told).toHaveLength(2)
  expect(await ask(`${url}/readyz`)).toMatchObject([200, { ready: true }])
  for (const watch of watches) watch.close()
})

test('one that ended by itself is missed as well, and none that is not needed any more', async () => {
  const { url } = await listenAdmin()
  const failed = new Promise<Error | undefined>((resolve) => {
    const start = () => new Worker('process.exit(3)', { eval: true })
    const watch = watchGuest(guest, resolve, { start, backoffMs: 1_000_000 })
    watch.beginCall()
    watch.end()
    onTestFinished(() => watch.close())
  })
  expect((await failed)?.message).toContain('3')
  await new Promise(setImmediate)
  expect(await ask(`${url}/readyz`)).toMatchObject([503, { ready: false }])
})

test.each([
  ['at its start, if it runs code then', true, ['start', 'no']],
  ['with its first call, if its start runs no code', false, ['no', 'start']],
])('the thread starts with the first code of a guest: %s', (_when, runsAtStart, expected) => {
  let starts = 0
  const start = () => {
    starts++
    const worker = new Worker('require("node:worker_threads").parentPort.on("message", () => {})', {
      eval: true,
    })
    onTestFinished(async () => void (await worker.terminate()))
    return worker
  }
  const watch = watchGuest({ ...guest, runsAtStart }, () => undefined, { start })
  onTestFinished(() => watch.close())
  const startedBy = (run: () => void) => {
    const before = starts
    run()
    watch.end()
    return starts > before ? 'start' : 'no'
  }
  expect([startedBy(() => watch.beginStart()), startedBy(() => watch.beginCall())]).toEqual(expected)
  watch.beginCall()
  watch.end()
  expect(starts).toBe(1)
})

test('one of twenty thousand guests is named as well', async () => {
  const watchdog = new URL('../../lib/engine/watchdog.js', import.meta.url).href
  const code = `
    import { watchGuest } from ${JSON.stringify(watchdog)}
    const names = (number) => ({ plugin: \`plug-in-\${number}.wasm\`, function: 'go', route: \`/route/\${number}\` })
    const guests = Array.from({ length: 20_000 }, (_, number) => ({ ...names(number), stallMs: 300, deadlineMs: 0, runsAtStart: false }))
    guests.map((guest) => watchGuest(guest, () => undefined)).at(-1).beginCall()
    for (;;);`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [line] = await once(child.stderr.setEncoding('utf8'), 'data')
  expect(JSON.parse(line)).toMatchObject({
    plugin: 'plug-in-19999.wasm',
    function: 'go',
    route: '/route/19999',
  })
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
})
