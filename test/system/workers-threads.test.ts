import { rmSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { WorkersOptions } from '../../src/engine/workers/thread.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { callText, openEngine } from '../support/engine.ts'
import { file } from '../support/guest.ts'

const open = (guest: string, options: Partial<WorkersOptions> = {}) =>
  openEngine({ name: 'workers', runtime: kernel }, guest, options)

test.each([0, 1])('a guest is ended in time, for ever, with %i spare threads', async (spareWorkers) => {
  const engine = await open('moody', { timeoutMs: 100, spareWorkers })
  await engine.ready
  for (let i = 0; i < 5; i++) {
    await expect(callText(engine, 'answer', 'L')).rejects.toMatchObject({ statusCode: 504 })
    expect(await callText(engine, 'answer', `well ${i}`)).toBe(`well ${i}`)
  }
})

/** The path of a module with the host function of the guest `relay`. */
const relay = (body: string) =>
  file(
    `relay-${serial++}.mjs`,
    `import fs from 'node:fs'; export default { env: { relay(context, input) { ${body} } } }`,
  )
let serial = 0

test('a thread that runs out of memory costs its call, and is replaced', async () => {
  const path = relay(
    'if (context.read(input).text() === "eat") for (const all = []; ;) all.push(new Array(1e4).fill(0.5)); return input',
  )
  const engine = await open('relay', { functions: path, timeoutMs: 20_000 })
  const calls = ['a', 'eat', 'b'].map((text) => callText(engine, 'relay', text))
  expect(await Promise.allSettled(calls)).toMatchObject([
    { value: 'a' },
    { reason: { code: 'WASM_SERVE_WORKER_LOST' } },
    { value: 'b' },
  ])
})

test('after five failed starts calls are refused at once, until a thread can be started again', async () => {
  const isBroken = file('broken', '')
  rmSync(isBroken)
  const path = file(
    'breakable.mjs',
    `import fs from 'node:fs'
    if (fs.existsSync(${JSON.stringify(isBroken)})) throw new Error('out of order')
    export default { env: { relay(context, input) { if (context.read(input).text() === 'die') process.exit(1); return input } } }`,
  )
  const engine = await open('relay', { functions: path, spareWorkers: 0, backoffMs: 5 })
  expect(await callText(engine, 'relay', 'a')).toBe('a')
  expect(engine.trouble).toBeUndefined()

  writeFileSync(isBroken, '')
  await expect(callText(engine, 'relay', 'die')).rejects.toMatchObject({ code: 'WASM_SERVE_WORKER_LOST' })
  await expect(callText(engine, 'relay', 'waits')).rejects.toMatchObject({
    code: 'WASM_SERVE_BREAKER_OPEN',
    statusCode: 503,
  })
  await expect(callText(engine, 'relay', 'b')).rejects.toMatchObject({ code: 'WASM_SERVE_BREAKER_OPEN' })
  expect(engine.trouble).toContain('out of order')

  rmSync(isBroken)
  await expect.poll(() => engine.trouble, { timeout: 20_000 }).toBeUndefined()
  expect(await callText(engine, 'relay', 'c')).toBe('c')
})

test('neither deadlines nor traps open the breaker', async () => {
  const engine = await open('moody', { timeoutMs: 100 })
  for (let i = 0; i < 6; i++) {
    await expect(callText(engine, 'answer', 'L')).rejects.toMatchObject({ statusCode: 504 })
    await expect(callText(engine, 'answer', 'T')).rejects.toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
  }
  expect(await callText(engine, 'answer', 'well')).toBe('well')
})

test('a thread that throws what is no error costs nothing but itself', async () => {
  const path = file(
    'throws.mjs',
    `setTimeout(() => { throw 'boom' }, 100); export default { env: { relay: (context, input) => input } }`,
  )
  const engine = await open('relay', { functions: path, spareWorkers: 0, backoffMs: 5 })
  await engine.ready
  for (let i = 0; i < 3; i++) {
    await expect.poll(() => engine.trouble, { timeout: 10_000 }).toBeDefined()
    expect(await callText(engine, 'relay', `${i}`)).toBe(`${i}`)
  }
})

test('one slow call does not make the route refuse quick ones', async () => {
  const path = relay(
    'const until = performance.now() + 900; while (context.read(input).text() === "slow" && performance.now() < until); return input',
  )
  const engine = await open('relay', { functions: path, timeoutMs: 5_000, maxWaitMs: 2_000 })
  const quick = () => Promise.all(Array.from({ length: 300 }, () => callText(engine, 'relay', 'quick')))
  await quick()
  await callText(engine, 'relay', 'slow')
  expect(await quick()).toHaveLength(300)
})
