import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Engine } from '../../src/engine/engine.ts'
import type { WorkersOptions } from '../../src/engine/workers/thread.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { callText, openEngine } from '../support/engine.ts'
import { file } from '../support/guest.ts'
import { keepLog } from '../support/instance.ts'

const open = (guest: string, options: Partial<WorkersOptions> = {}) =>
  openEngine({ name: 'workers', runtime: kernel }, guest, options)

test('of 300 calls on two threads every tenth never returns: they alone are lost', async () => {
  const engine = await open('moody', { timeoutMs: 200, workers: 2 })
  const calls = Array.from({ length: 300 }, (_, i) =>
    callText(engine, 'answer', i % 10 === 5 ? `L${i}` : `call ${i}`),
  )
  for (const [i, result] of (await Promise.allSettled(calls)).entries()) {
    if (i % 10 === 5) expect(result).toMatchObject({ reason: { code: 'WASM_SERVE_DEADLINE_EXCEEDED' } })
    else expect(result).toMatchObject({ value: `call ${i}` })
  }
})

test('while the event loop is held no guest is taken for one that does not return', async () => {
  const engine = await open('moody', { timeoutMs: 400 })
  await engine.ready
  for (let i = 0; i < 3; i++) {
    const answer = callText(engine, 'answer', 'W')
    await new Promise((resolve) => setImmediate(resolve)) // it is handed over
    hold(1_000)
    expect(await answer).toBe('W')
  }
})

test('a call that has waited for too long is refused, and its guest does not run', async () => {
  const engine = await open('moody', { timeoutMs: 1_500, maxWaitMs: 400 })
  await engine.ready
  const running = await hang(engine)
  const log = keepLog()
  await expect(callText(engine, 'answer', 'G', { log })).rejects.toMatchObject({
    code: 'WASM_SERVE_QUEUE_SLOW',
  })
  await running.ended
  expect(await callText(engine, 'answer', 'well')).toBe('well')
  expect(log.lines).toEqual([])
})

/** The path of a module with the host function of the guest `relay`. */
const relay = (body: string) =>
  file(
    `relay-${serial++}.mjs`,
    `import fs from 'node:fs'; export default { env: { relay(context, input) { ${body} } } }`,
  )
let serial = 0

test('a thread that waits in a native call is written off: its call is answered, and the operator is told', async () => {
  const fifo = join(mkdtempSync(join(tmpdir(), 'wasm-serve-fifo-')), 'fifo')
  execFileSync('mkfifo', [fifo])
  onTestFinished(() => rmSync(fifo))
  const path = relay(
    `if (context.read(input).text() === 'stick') fs.readFileSync(${JSON.stringify(fifo)}); return input`,
  )
  const engine = await open('relay', { functions: path, timeoutMs: 200 })
  await engine.ready
  await expect(callText(engine, 'relay', 'stick')).rejects.toMatchObject({ statusCode: 504 })
  expect(await callText(engine, 'relay', 'well')).toBe('well')
  await expect.poll(() => engine.trouble, { timeout: 10_000 }).toContain('cannot be terminated')

  closeSync(openSync(fifo, 'r+')) // a writer comes and goes: the thread reads on, and ends
  await expect.poll(() => engine.trouble, { timeout: 10_000 }).toBeUndefined()
})

/** A guest that runs until its deadline; it has begun. */
async function hang(engine: Engine): Promise<{ readonly ended: Promise<void> }> {
  let begun: () => void = () => undefined
  const hasBegun = new Promise<void>((resolve) => (begun = resolve))
  const call = callText(engine, 'answer', 'G', { log: { ...keepLog(), info: begun } })
  const ended = expect(call).rejects.toMatchObject({ statusCode: 504 })
  await hasBegun
  return { ended }
}

function hold(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until) void 0
}
