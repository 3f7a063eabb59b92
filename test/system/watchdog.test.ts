import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { suspending } from '../../src/platform/missing-types.ts'
import { workerFile } from '../../src/platform/packages.ts'
import { CLI, type Running, start } from '../support/cli-process.ts'
import { IN_A_CONTAINER } from '../support/container.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { describeWith } from '../support/tools.ts'

const STALL_MS = 1_000

/** How long after `stallMs` the process may end: two looks of the watchdog, and some time for a busy machine. */
const LATE_MS = 2 * (STALL_MS / 10) + 4_000

/** A server whose guests nothing else ends: their deadline is the same second. */
async function listening(plugin: string, ...flags: string[]) {
  const stall = flags.includes('--stall-ms') ? [] : ['--stall-ms', String(STALL_MS)]
  const server = start([plugin, '0', ...stall, '--interrupts', 'off', ...flags])
  return { ...server, url: await server.listening() }
}

const ask = async (url: string, body = '') => (await fetch(url, { method: 'POST', body })).text()

/** A call that nobody will answer. */
function askInVain(url: string): void {
  ask(url, 'x').catch(() => undefined)
}

/** A server whose guest calls a host function that holds the event loop for so long. */
async function listeningToHold(ms: number) {
  const bytes = guestBytes(`(module
    (import "env" "hold" (func $hold))
    (func (export "go") (result i32) (call $hold) (i32.const 0)))`)
  const wait = `Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${ms})`
  const functions = file('hold.mjs', `export default { env: { hold() { ${wait} } } }`)
  return listening(file('holds.wasm', bytes), '--functions', functions)
}

/** The only line of the log. */
async function lastWords({ ended }: Running): Promise<Record<string, unknown>> {
  const { stderr } = await ended
  expect(stderr.split('\n')).toHaveLength(2)
  return JSON.parse(stderr)
}

function threadsOf(id: number | undefined): number {
  return readdirSync(`/proc/${id}/task`).length
}

test('a guest that does not return is killed with the process, and named in one line', async () => {
  const server = await listening(guest('loop'))
  const begun = performance.now()
  askInVain(server.url)
  expect(await server.ended).toMatchObject({ code: null, signal: 'SIGKILL' })
  const tookMs = performance.now() - begun
  expect(tookMs).toBeGreaterThan(STALL_MS)
  expect(tookMs).toBeLessThan(STALL_MS + LATE_MS)
  expect(await lastWords(server)).toMatchObject({
    level: 'fatal',
    time: expect.stringMatching(/^\d{4}-.*Z$/),
    msg: expect.stringContaining('function "loop"'),
    code: 'WASM_SERVE_GUEST_STALL',
    plugin: 'loop',
    function: 'loop',
    route: '/',
    stallMs: STALL_MS,
  })
})

test('so is one that does not end to start', async () => {
  const server = start([guest('start-loop'), '0', '--stall-ms', String(STALL_MS)])
  expect(await server.ended).toMatchObject({ signal: 'SIGKILL', stdout: '' })
  expect(await lastWords(server)).toMatchObject({
    code: 'WASM_SERVE_GUEST_STALL',
    msg: expect.stringContaining('start of plug-in start-loop'),
  })
})

test('so is one on the SDK', async () => {
  const server = await listening(guest('loop'), '--runtime', 'sdk')
  askInVain(server.url)
  expect(await server.ended).toMatchObject({ signal: 'SIGKILL' })
  expect(await lastWords(server)).toMatchObject({ code: 'WASM_SERVE_GUEST_STALL' })
})

test('the guest that is named is the one that runs, not one that was called before', async () => {
  const bytes = guestBytes(`(module
    (func (export "first") (result i32) (i32.const 0))
    (func (export "second") (result i32) (loop $for_ever (br $for_ever)) (i32.const 0)))`)
  const server = await listening(file('two.wasm', bytes))
  await ask(`${server.url}/first`)
  askInVain(`${server.url}/second`)
  await server.ended
  expect(await lastWords(server)).toMatchObject({ function: 'second', route: '/second' })
})

describeWith(['process namespaces'], () => {
  test.each([
    'start-loop',
    'loop',
  ])('so is one in process 1 of a container, which no signal from inside can kill: %s', async (name) => {
    const args = [process.execPath, CLI, guest(name), '0', '--stall-ms', String(STALL_MS)]
    const child = spawn('unshare', [...IN_A_CONTAINER, ...args], { stdio: ['ignore', 'pipe', 'ignore'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    child.stdout.setEncoding('utf8').on('data', (text) => askInVain(/listens on (\S+)/.exec(text)?.[1] ?? ''))
    expect(await once(child, 'exit')).toEqual([null, 'SIGTRAP'])
  })
})

test.runIf(suspending)('so is one that does not return after it has waited', async () => {
  const bytes = guestBytes(`(module
    (import "env" "wait" (func $wait))
    (func (export "go") (result i32) (call $wait) (loop $for_ever (br $for_ever)) (i32.const 0)))`)
  const functions = file(
    'wait.mjs',
    'export default { env: { wait: async () => new Promise(setImmediate) } }',
  )
  const server = await listening(file('waits.wasm', bytes), '--functions', functions)
  askInVain(server.url)
  expect(await server.ended).toMatchObject({ signal: 'SIGKILL' })
  expect(await lastWords(server)).toMatchObject({ code: 'WASM_SERVE_GUEST_STALL' })
})

test.runIf(suspending)('so is one that streams, and does not return after it was suspended', async () => {
  const server = await listening(guest('stream'), '--function', 'tell', '--engine', 'inline')
  const sending = request(server.url, { method: 'POST' }).on('error', () => undefined)
  sending.write('{"data":"a"}')
  const [answer] = await once(sending, 'response')
  answer.on('error', () => undefined)
  await once(answer, 'data')
  sending.write('!')
  expect(await server.ended).toMatchObject({ signal: 'SIGKILL' })
  expect(await lastWords(server)).toMatchObject({ code: 'WASM_SERVE_GUEST_STALL' })
})

test.runIf(suspending)('a guest that waits for longer than that is no stall', async () => {
  const bytes = guestBytes(`(module
    (import "env" "wait" (func $wait))
    (func (export "go") (result i32) (call $wait) (i32.const 0)))`)
  const functions = file(
    'sleep.mjs',
    `export default { env: { wait: async () => new Promise((resolve) => setTimeout(resolve, ${2 * STALL_MS})) } }`,
  )
  const server = await listening(file('sleeps.wasm', bytes), '--functions', functions)
  expect(await ask(server.url)).toBe('')
})

test('a process whose log nobody reads is killed all the same', async () => {
  const server = await listening(guest('loop'), '--access-log')
  server.child.stderr?.pause()
  const path = `${server.url}/${'x'.repeat(15_000)}`
  for (let i = 0; i < 30; i++) await fetch(path) // more than the pipe and its reader hold
  askInVain(server.url)
  const [, signal] = await once(server.child, 'exit')
  expect(signal).toBe('SIGKILL')
})

test('a guest that takes half of the time again and again is no stall', async () => {
  const server = await listeningToHold(STALL_MS / 2)
  for (let i = 0; i < 6; i++) expect(await ask(server.url)).toBe('')
})

test('many short calls, one after the other for longer than that, are no stall', async () => {
  const server = await listening(guest('echo'))
  const begun = performance.now()
  const client = async () => {
    while (performance.now() - begun < 2 * STALL_MS) expect(await ask(server.url, 'abc')).toBe('abc')
  }
  await Promise.all(Array.from({ length: 20 }, client))
})

test('a process that was stopped for longer than that during a call goes on', async () => {
  const server = await listeningToHold(STALL_MS / 2)
  const answer = ask(server.url)
  await sleep(STALL_MS / 4) // in the middle of the call
  server.child.kill('SIGSTOP')
  await sleep(2 * STALL_MS)
  server.child.kill('SIGCONT')
  expect(await answer).toBe('')
})

const isLinux = process.platform === 'linux' // which tells the threads of a process

test.runIf(isLinux)('without a watchdog there is no thread', async () => {
  const [without, with_] = await Promise.all([
    listening(guest('echo'), '--stall-ms', '0'),
    listening(guest('echo')),
  ])
  await Promise.all([ask(without.url), ask(with_.url)])
  expect(threadsOf(without.child.pid)).toBe(threadsOf(with_.child.pid) - 1)
})

test.runIf(isLinux)('there is one thread for all routes', async () => {
  const [one, several] = await Promise.all([listening(guest('echo')), listening(guest('several'))])
  await Promise.all([one.url, `${several.url}/alpha`, `${several.url}/several`].map((url) => ask(url)))
  expect(threadsOf(several.child.pid)).toBe(threadsOf(one.child.pid))
})

test.runIf(isLinux)('a process that may be debugged is not watched', async () => {
  const [debugged, without] = ['--inspect=127.0.0.1:0', '--inspect=127.0.0.1:0'].map((options, i) =>
    start([guest('echo'), '0', ...(i ? ['--stall-ms', '0'] : [])], { NODE_OPTIONS: options }),
  ) as [Running, Running]
  for (const server of [debugged, without]) await ask(await server.listening())
  expect(threadsOf(debugged.child.pid)).toBe(threadsOf(without.child.pid))
})

/** An app of somebody else, in a process of its own, that prints how many threads it keeps. */
async function threadsOfApp(options: object): Promise<number> {
  const library = new URL('../../dist/index.js', import.meta.url).href
  const app = file(
    'app.mjs',
    `import { readdirSync } from 'node:fs'
    import { createRequire } from 'node:module'
    import { wasmServe } from ${JSON.stringify(library)}
    const app = createRequire(${JSON.stringify(library)})('fastify')()
    await app.register(wasmServe, ${JSON.stringify(options)})
    await app.inject({ method: 'POST', url: '/' })
    let fewest = Number.POSITIVE_INFINITY // the thread that compiled the plug-in may still end
    for (let left = 50; left > 0; left--) {
      fewest = Math.min(fewest, readdirSync('/proc/self/task').length)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    console.log(fewest)
    await app.close() // or the process would not end`,
  )
  const child = spawn(process.execPath, [app], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const closed = once(child, 'close')
  const [threads] = await once(child.stdout.setEncoding('utf8'), 'data')
  expect(await closed).toEqual([0, null])
  return Number(threads)
}

test.runIf(isLinux)(
  "the Fastify plugin starts no thread in somebody's process unless it is asked to",
  async () => {
    const routes = [{ plugin: guest('echo') }]
    const unwatched = await threadsOfApp({ routes })
    expect(await threadsOfApp({ routes, stallMs: 0 })).toBe(unwatched)
    expect(await threadsOfApp({ routes, stallMs: 1_000 })).toBe(unwatched + 1)
  },
)

test("a thread's file is the built one, also where the sources are run", () => {
  for (const name of ['kernel-thread', 'load-thread', 'sdk-thread', 'watchdog-thread'] as const)
    expect(existsSync(workerFile(name))).toBe(true)
})
