import pino from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { TrialThread } from '../../src/engine/workers/trial.ts'
import { createServer, type RouteOptions } from '../../src/index.ts'
import { guestBytes } from '../support/guest.ts'
import { serve } from '../support/serve.ts'

/** Answers with its input, by the last of 600 functions. Its others fail. */
const MANY = guestBytes(`(module
  (import "extism:host/env" "input_length" (func $length (result i64)))
  (import "extism:host/env" "input_offset" (func $offset (result i64)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (memory (export "memory") 1)
  (global $isReady (mut i32) (i32.const 1))
  ${Array.from({ length: 598 }, (_, i) => `(func (export "f${i}") (result i32) (i32.const ${i + 1}))`).join('')}
  (func (export "_initialize") (global.set $isReady (i32.const 0)))
  (func (export "answer") (result i32)
    (call $output (call $offset) (call $length)) (global.get $isReady)))`)

const KINDS: readonly Partial<RouteOptions>[] = [
  {},
  { isolation: 'fresh' },
  { workers: 1 },
  { workers: 1, isolation: 'fresh' },
  { runtime: 'sdk' },
]

test.each(KINDS)('the last of many functions is served, whatever runs it: %j', async (kind) => {
  const app = await serve({ plugin: MANY, url: '/', function: 'answer', ...kind })
  for (const payload of ['one', 'two']) {
    const answer = await app.inject({ method: 'POST', url: '/', payload })
    expect({ status: answer.statusCode, body: answer.body }).toEqual({ status: 200, body: payload })
  }
})

test('a function that fails tells with what, and one that is not there is refused', async () => {
  const app = await serve({ plugin: MANY, url: '/', function: 'f597' })
  expect((await app.inject({ method: 'POST', url: '/' })).statusCode).toBe(409)
  await expect(serve({ plugin: MANY, url: '/', function: 'f598' })).rejects.toMatchObject({
    code: 'WASM_SERVE_FUNCTION_UNKNOWN',
  })
})

test('a route that is tried before it is served is served', async () => {
  const app = await serve({ plugin: MANY, url: '/', function: 'answer' }, { trial: true })
  expect((await app.inject({ method: 'POST', url: '/', payload: 'three' })).body).toBe('three')
})

test('a start that takes long is told of by the trial', async () => {
  const lines: { startMs?: number }[] = []
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) })
  const plugin = guestBytes(`(module (func (export "run")) (func (export "_initialize") (local $i i32)
    (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 400000000))))))`)
  const options = { stallMs: 0, trial: true, routes: [{ plugin, url: '/', function: 'run' }] }
  const app = await createServer(options, log)
  onTestFinished(() => app.close())
  expect(lines.filter(({ startMs }) => startMs !== undefined)).toHaveLength(1)
})

test.each([
  [49, 0],
  [50, 1],
])('a start of %i ms has so many lines of the trial: %i', async (startMs, count) => {
  const run = vi.spyOn(TrialThread.prototype, 'run').mockResolvedValue(startMs)
  onTestFinished(() => run.mockRestore())
  const lines: unknown[] = []
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) })
  const plugin = guestBytes('(module (func (export "run")) (func (export "_initialize")))')
  const options = { stallMs: 0, trial: true, routes: [{ plugin, url: '/', function: 'run' }] }
  const app = await createServer(options, log)
  onTestFinished(() => app.close())
  expect(run).toHaveBeenCalledTimes(1)
  expect(lines).toHaveLength(count)
})
