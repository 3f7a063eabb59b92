import { execFileSync, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { closeSync, constants, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { describe, expect, onTestFinished, test } from 'vitest'
import { tryInThread } from '../../src/engine/workers/trial.ts'
import { longestWait, readCoreWaits } from '../../src/platform/core-waits.ts'
import {
  stuckThreads,
  terminateOrWriteOff,
  terminateThreads,
  trackThread,
} from '../../src/platform/stuck-threads.ts'
import { listenAdmin } from '../support/admin.ts'
import { containedBy, IN_A_CONTAINER } from '../support/container.ts'
import { openFifo } from '../support/fifo.ts'
import { file } from '../support/guest.ts'
import { keepLog } from '../support/instance.ts'
import { describeWith } from '../support/tools.ts'
import { threadOptions } from '../support/trial.ts'

/** A thread that waits in one native call until a pipe is closed. */
const STUCK = `require('node:fs').readFileSync(require('node:worker_threads').workerData, 'utf8')`

/** One that compiles a small function for a minute, at its first call: 40,000 locals that each of 50,000 blocks merges. */
const COMPILES = `const { closeSync, openSync } = require('node:fs')
const leb = (n) => (n > 127 ? [(n & 127) | 128, ...leb(n >>> 7)] : [n])
const section = (id, bytes) => [id, ...leb(bytes.length), ...bytes]
const body = [1, ...leb(40_000), 0x7e]
for (let block = 0; block < 50_000; block++) body.push(0x41, 0, 0x04, 0x40, 0x0b)
body.push(0x0b)
const code = [1, ...leb(body.length), ...body]
const bytes = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...section(1, [1, 0x60, 0, 0]), ...section(3, [1, 0])]
bytes.push(...section(7, [1, 1, 0x66, 0, 0]), ...section(10, code))
const { exports } = new WebAssembly.Instance(new WebAssembly.Module(Uint8Array.from(bytes)))
closeSync(openSync(require('node:worker_threads').workerData))
exports.f()`

/** One that can be ended. */
const LOOPS = `const { closeSync, openSync } = require('node:fs')
closeSync(openSync(require('node:worker_threads').workerData))
for (;;);`

function makePipe(): string {
  const path = join(tmpdir(), `wasm-serve-${process.pid}-${Math.random()}`)
  execFileSync('mkfifo', [path])
  onTestFinished(() => rmSync(path))
  return path
}

/** Waits until a thread has opened the pipe to read, and opens it to write. @returns what closes it. */
async function opened(path: string): Promise<() => void> {
  for (;;) {
    try {
      const descriptor = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
      return () => closeSync(descriptor)
    } catch (error) {
      expect(error).toMatchObject({ code: 'ENXIO' }) // nobody reads yet
      await new Promise(setImmediate)
    }
  }
}

async function startThread(code: string) {
  const path = makePipe()
  const worker = new Worker(code, { eval: true, workerData: path })
  trackThread(worker)
  return { worker, closePipe: await opened(path) }
}

test('a thread that runs is ended', async () => {
  const { worker } = await startThread(LOOPS)
  expect(await terminateOrWriteOff(worker, keepLog())).toBe(true)
  expect(stuckThreads()).toBe(0)
})

test('a thread that waits in a native call is written off, and counted until it ends', async () => {
  const { worker, closePipe } = await startThread(STUCK)
  const log = keepLog()
  expect(await terminateOrWriteOff(worker, log, 100)).toBe(false)
  await terminateThreads(log, 100)
  expect(stuckThreads()).toBe(1)
  expect(log.lines.map(({ level }) => level)).toEqual(['error'])

  const ended = once(worker, 'exit')
  closePipe()
  await ended
  expect(stuckThreads()).toBe(0)
})

/** How long the end may take beyond drain and grace, and some time for a busy machine. */
const END_MS = 1_000 + 4_000

/** A server in a process of its own, with some threads of a kind; its drain ends at once, or never. */
async function startServer(
  thread: string,
  drain: 'ends' | 'hangs',
  through: readonly string[] = [],
  threads = 1,
) {
  const module = (path: string) => JSON.stringify(new URL(`../../lib/${path}`, import.meta.url).href)
  const script = file(
    'server.mjs',
    `import { Worker } from 'node:worker_threads'
    import { terminateOrWriteOff, trackThread } from ${module('platform/stuck-threads.js')}
    import { openLog } from ${module('observe/log/log.js')}
    import { endWithSignals } from ${module('server/shutdown.js')}
    const [code, drain, ...paths] = process.argv.slice(2)
    const workers = paths.map((path) => new Worker(code, { eval: true, workerData: path }))
    for (const worker of workers) trackThread(worker)
    const log = openLog('info')
    process.on('SIGWINCH', () => { for (const worker of workers) terminateOrWriteOff(worker, log, 200) })
    process.on('SIGUSR2', () => { throw new Error('a bug') })
    const server = { drain: () => drain === 'hangs' ? new Promise(() => undefined) : Promise.resolve() }
    endWithSignals(server, { drainMs: 0, graceMs: 10_000 }, log)
    console.log('ready')`,
  )
  const paths = Array.from({ length: threads }, makePipe)
  const [command = '', ...args] = [...through, process.execPath, script, thread, drain, ...paths]
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
  await Promise.all([once(child.stdout, 'data'), ...paths.map(opened)])
  return { child, ended: once(child, 'close'), stderr: () => stderr }
}

test('a server ends with 0 if its threads can be ended', async () => {
  const { child, ended } = await startServer(LOOPS, 'ends')
  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
})

test('a server with a stuck thread is killed in time, and the log says why', async () => {
  const { child, ended, stderr } = await startServer(STUCK, 'ends')
  const begun = performance.now()
  child.kill('SIGTERM')
  expect(await ended).toEqual([null, 'SIGKILL'])
  expect(performance.now() - begun).toBeLessThan(END_MS)
  expect(stderr()).toContain('threads are stuck')
})

test.each([
  ['a stuck thread', STUCK, [null, 'SIGKILL']],
  ['one that can be ended', LOOPS, [1, null]],
])('a second signal ends a server with %s at once', async (_, thread, end) => {
  const { child, ended, stderr } = await startServer(thread, 'hangs')
  child.kill('SIGTERM')
  while (!stderr().includes('closing')) await once(child.stderr, 'data')
  const begun = performance.now()
  child.kill('SIGTERM')
  expect(await ended).toEqual(end)
  expect(performance.now() - begun).toBeLessThan(END_MS)
})

test('a server ends itself, with 75, when four threads are stuck that wait for a pipe', async () => {
  const { child, ended, stderr } = await startServer(STUCK, 'ends', [], 4)
  child.kill('SIGWINCH')
  expect(await ended).toEqual([75, null])
  expect(stderr()).toContain('WASM_SERVE_PROCESS_STUCK')
})

test('and when they compile', async () => {
  const { child, ended } = await startServer(COMPILES, 'ends', [], 4)
  while (busyThreads(child.pid) < 4) await sleep(10)
  child.kill('SIGWINCH')
  expect(await ended).toEqual([75, null])
})

/** How many threads of a process, but for its first, have computed for so long that they are in their compilation. */
function busyThreads(pid = 0): number {
  const ids = readdirSync(`/proc/${pid}/task`).filter((id) => id !== String(pid))
  return ids.filter((id) => {
    const stat = readFileSync(`/proc/${pid}/task/${id}/stat`, 'latin1')
    const [ticks = 0] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 12)
      .map(Number)
    return ticks >= 30 // of 10 ms; to start takes 10 of them
  }).length
}

test('three of them are no reason to', async () => {
  const { child, ended, stderr } = await startServer(STUCK, 'ends', [], 3)
  child.kill('SIGWINCH')
  while (stderr().split('cannot be terminated').length < 4) await once(child.stderr, 'data')
  child.kill('SIGTERM')
  expect(await ended).toEqual([null, 'SIGKILL'])
  expect(stderr()).not.toContain('WASM_SERVE_PROCESS_STUCK')
})

test('a trial of a plug-in whose threads are stuck starts no other', async () => {
  const { path, close } = openFifo()
  const { plugin, ...options } = await threadOptions('echo')
  const hangs = {
    ...options,
    plugin,
    functions: file(
      'hangs.mjs',
      `import { readFileSync } from 'node:fs'
readFileSync(${JSON.stringify(path)})`,
    ),
  }
  // On a busy machine a thread may be told to end before it reads.
  while (stuckThreads() < 2)
    await expect(tryInThread(hangs, 300)).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
  await expect(tryInThread({ ...options, plugin }, 1)).rejects.toMatchObject({
    code: 'WASM_SERVE_THREADS_STUCK',
  })
  await expect(tryInThread({ ...options, plugin, route: '/other' }, 1)).rejects.toMatchObject({
    code: 'WASM_SERVE_THREADS_STUCK',
  })
  await tryInThread(await threadOptions('upper'), 10_000)
  expect(stuckThreads()).toBe(2)
  close()
  while (stuckThreads() > 0) await new Promise(setImmediate)
  await tryInThread({ plugin, ...options }, 10_000)
})

test('an error that nothing handles ends a server with a stuck thread, too', async () => {
  const { child, ended, stderr } = await startServer(STUCK, 'ends')
  child.kill('SIGUSR2')
  expect(await ended).toEqual([null, 'SIGKILL'])
  expect(stderr()).toContain('uncaught error')
})

test('the process is healthy as long as it need not be started again: up to three stuck threads', async () => {
  const { url } = await listenAdmin()
  const health = async () => (await fetch(`${url}/healthz`)).status
  const threads = Array.from({ length: 4 }, (_, index) =>
    Object.assign(new EventEmitter(), {
      threadId: 1_000 + index,
      terminate: () => new Promise<number>(() => undefined),
    }),
  )
  const found: number[] = []
  for (const thread of threads) {
    trackThread(thread)
    expect(await terminateOrWriteOff(thread, keepLog(), 1)).toBe(false)
    found.push(await health())
  }
  expect(found).toEqual([200, 200, 200, 503])
  threads.at(-1)?.emit('exit', 1)
  expect(await health()).toBe(200)
  for (const thread of threads) thread.emit('exit', 1)
})

describeWith(['process namespaces'], () => {
  test('a server with a stuck thread ends as process 1 of a container, which no signal from inside can kill', async () => {
    const { child, ended, stderr } = await startServer(STUCK, 'ends', ['unshare', ...IN_A_CONTAINER])
    process.kill(containedBy(child.pid), 'SIGTERM')
    expect(await ended).toEqual([null, 'SIGTRAP'])
    expect(stderr()).toContain('threads are stuck')
  })
})

describe.skipIf(process.platform !== 'linux')('the waits of threads for a core', () => {
  test('grow while more threads run than there are cores', async () => {
    const before = readCoreWaits()
    const workers = Array.from(
      { length: 2 * availableParallelism() + 1 },
      () => new Worker('for(;;);', { eval: true }),
    )
    onTestFinished(async () => void (await Promise.all(workers.map((worker) => worker.terminate()))))
    while (longestWait(before, readCoreWaits()) < 100) await new Promise(setImmediate)
  })
})
