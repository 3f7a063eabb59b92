import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import {
  stuckThreads,
  terminateOrWriteOff,
  terminateThreads,
  trackThread,
} from '../../src/engine/stuck-threads.ts'
import { containedBy, IN_A_CONTAINER } from '../support/container.ts'
import { file } from '../support/guest.ts'
import { keepLog } from '../support/instance.ts'
import { describeWith } from '../support/tools.ts'

/** A thread that waits in one native call until a pipe is closed. */
const STUCK = `require('node:fs').readFileSync(require('node:worker_threads').workerData, 'utf8')`

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
const END_MS = 1_000 + 500

/** A server in a process of its own, with a thread; its drain ends at once, or never. */
async function startServer(thread: string, drain: 'ends' | 'hangs', through: readonly string[] = []) {
  const module = (path: string) => JSON.stringify(new URL(`../../lib/${path}`, import.meta.url).href)
  const script = file(
    'server.mjs',
    `import { Worker } from 'node:worker_threads'
    import { trackThread } from ${module('engine/stuck-threads.js')}
    import { openLog } from ${module('log/log.js')}
    import { endWithSignals } from ${module('shutdown.js')}
    const [code, path, drain] = process.argv.slice(2)
    const worker = new Worker(code, { eval: true, workerData: path })
    trackThread(worker)
    process.on('SIGUSR2', () => { throw new Error('a bug') })
    const server = { drain: () => drain === 'hangs' ? new Promise(() => undefined) : Promise.resolve() }
    endWithSignals(server, { drainMs: 0, graceMs: 10_000 }, openLog('info'))
    console.log('ready')`,
  )
  const path = makePipe()
  const [command = '', ...args] = [...through, process.execPath, script, thread, path, drain]
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
  await Promise.all([once(child.stdout, 'data'), opened(path)])
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

test('an error that nothing handles ends a server with a stuck thread, too', async () => {
  const { child, ended, stderr } = await startServer(STUCK, 'ends')
  child.kill('SIGUSR2')
  expect(await ended).toEqual([null, 'SIGKILL'])
  expect(stderr()).toContain('nothing handles')
})

describeWith(['process namespaces'], () => {
  test('a server with a stuck thread ends as process 1 of a container, which no signal from inside can kill', async () => {
    const { child, ended, stderr } = await startServer(STUCK, 'ends', ['unshare', ...IN_A_CONTAINER])
    process.kill(containedBy(child.pid), 'SIGTERM')
    expect(await ended).toEqual([null, 'SIGTRAP'])
    expect(stderr()).toContain('threads are stuck')
  })
})
