import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { CLI } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'

const FORMATS = ['json', 'combined'] as const

/** Beyond drain and grace, and what a busy machine takes more. */
const END_MS = 1_500 + 3_500

/** A server of which standard output and error go to a place that takes nothing. */
async function startBlocked(kind: 'pipe' | 'full', format: (typeof FORMATS)[number]) {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-blocked-'))
  const socketPath = join(folder, 'a.sock')
  const full = kind === 'full' ? openSync('/dev/full', 'w') : undefined
  const flags = ['--access-log', '--access-log-format', format, '--drain-ms', '0', '--grace-ms', '5000']
  const child = spawn(process.execPath, [CLI, guest('echo'), '--socket', socketPath, ...flags], {
    stdio: ['ignore', full ?? 'pipe', full ?? 'pipe'],
  })
  if (full !== undefined) closeSync(full)
  const exited = once(child, 'exit')
  onTestFinished(() => {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  })
  while (!(await canConnect(socketPath))) await new Promise(setImmediate)
  return { child, socketPath, exited }
}

async function canConnect(path: string): Promise<boolean> {
  const socket = connect(path)
  const is = await new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
  })
  socket.destroy()
  return is
}

/** More than a pipe and the ends of its reader hold. */
async function load({ socketPath }: { readonly socketPath: string }) {
  const path = 'x'.repeat(4_000)
  const running = startLoad({
    url: `http://localhost/${path}`,
    socketPath,
    connections: 20,
    isAnswer: () => true,
  })
  await running.answered(1_000)
  return running
}

function residentKiB({ pid }: ChildProcess): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

const CASES = (['pipe', 'full'] as const).flatMap((kind) => FORMATS.map((format) => [kind, format] as const))

test.each(
  CASES,
)('a log that cannot be written (%s, %s) costs no request, and a signal ends the server with 0', async (kind, format) => {
  const server = await startBlocked(kind, format)
  const running = await load(server)
  server.child.kill('SIGTERM')
  const begun = performance.now()
  expect(await running.ended).toMatchObject({ resets: 0 })
  expect(await server.exited).toEqual([0, null])
  expect(performance.now() - begun).toBeLessThan(5_000 + END_MS)
})

test.each(CASES)('nor does it keep a second signal (%s, %s) from ending it, with 1', async (kind, format) => {
  const server = await startBlocked(kind, format)
  const running = await load(server)
  await running.stop()
  const held = connect(server.socketPath)
  held.on('error', () => undefined)
  held.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nx')
  await load(server).then((another) => another.stop()) // so that request is there
  server.child.kill('SIGTERM')
  const impatient = setInterval(() => server.child.kill('SIGTERM'), 50)
  const begun = performance.now()
  expect(await server.exited).toEqual([1, null])
  clearInterval(impatient)
  expect(performance.now() - begun).toBeLessThan(END_MS)
})

test('what is kept for a reader that has stopped is bounded', async () => {
  const server = await startBlocked('pipe', 'json')
  const running = await load(server)
  await running.answered(4_000) // 16 MiB
  const before = residentKiB(server.child)
  await running.answered(12_000) // 48 MiB more
  expect(residentKiB(server.child) - before).toBeLessThan(40_000)
  await running.stop()
})

test('when the reader reads again, it reads how many lines were dropped', async () => {
  const server = await startBlocked('pipe', 'json')
  const running = await load(server)
  await running.answered(8_000)
  await running.stop()
  let text = ''
  server.child.stderr?.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  while (!text.includes('"dropped"')) await once(server.child.stderr as NodeJS.ReadableStream, 'data')
  server.child.kill('SIGTERM')
  await once(server.child, 'close')
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const answered = lines.filter(({ msg }) => msg === 'request').length
  const dropped = lines.reduce((sum, line) => sum + (line.dropped ?? 0), 0)
  expect(dropped).toBeGreaterThan(0)
  expect(answered + dropped).toBeGreaterThanOrEqual(running.counts.answers)
})
