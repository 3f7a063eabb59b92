import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { FROM_CHILD, TO_CHILD } from '../../src/engine/subprocess/frames.ts'
import { GuestProcess } from '../../src/engine/subprocess/guest-process.ts'
import { type ProcessStart, pack, readHostRequest, unpack } from '../../src/engine/subprocess/packed.ts'
import { GuestProcesses } from '../../src/engine/subprocess/process-group.ts'
import { openSandbox, readsOfModule, type Sandbox } from '../../src/engine/subprocess/sandbox.ts'
import type { ServiceRequest } from '../../src/guest/services/service.ts'
import { suspending } from '../../src/platform/missing-types.ts'
import { compilePlugin } from '../../src/plugin/plugin.ts'
import { readSource } from '../../src/plugin/source/source.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { callText, openEngine } from '../support/engine.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { keepLog, settingsOf } from '../support/instance.ts'
import { kvGuest } from '../support/kv-guest.ts'

const withoutTools = () => openSandbox(undefined, [])
const NEEDS = { heapMiB: 128, dataBytes: 4 * 2 ** 30, reads: [], writes: [] }

/** A process without instances. */
function launch(sandbox: () => Promise<Sandbox> = withoutTools, reads: readonly string[] = []): GuestProcess {
  const process = new GuestProcess({ sandbox, cgroup: undefined, needs: { ...NEEDS, reads }, log: keepLog() })
  onTestFinished(async () => void (await process.kill()))
  return process
}

/** An instance that is about to start in a process, and the results of its calls. */
async function addInstance(
  process: GuestProcess,
  source: string | Uint8Array,
  services: readonly string[] = [],
  functions?: string,
) {
  const how = { compiles: false, isolation: 'reuse', interrupts: 'on' } as const
  const { uncompiled } = await compilePlugin(await readSource(source), how)
  const { log: _log, ...settings } = settingsOf()
  const start: ProcessStart = {
    plugin: { name: 'guest', digest: '', modules: uncompiled ?? [] },
    settings,
    functions,
    isolation: { isolation: 'reuse', recycleMemory: Number.POSITIVE_INFINITY },
    services,
  }
  const results: unknown[] = []
  let heard: () => void = () => undefined
  const instance = process.add({
    isBusy: true,
    maxFrameBytes: 1_000_000,
    free: () => undefined,
    over(reason) {
      results.push(reason, reason) // nothing else comes
      heard()
    },
    take({ kind, call, payload }) {
      if (kind === FROM_CHILD.output) results.push([call, String(payload)])
      if (kind === FROM_CHILD.failure) results.push([call, unpack(payload)])
      if (kind === FROM_CHILD.ask) process.answerHost(instance, answerOf(readHostRequest(payload)))
      if (kind === FROM_CHILD.started) results.push('started')
      if (kind === FROM_CHILD.startFailed) results.push(unpack(payload))
      heard()
    },
  })
  const send = (kind: number, call: number, name = '', payload: Uint8Array = Buffer.of()) =>
    process.send({ kind, instance, call, nameBytes: name.length, ms: 0 }, [Buffer.from(name), payload])
  /** @returns the results when there are so many. */
  const after = async (count: number): Promise<readonly unknown[]> => {
    process.flush()
    while (results.length < count) await new Promise<void>((resolve) => (heard = resolve))
    return results.splice(0)
  }
  send(TO_CHILD.start, 0, '', pack(start))
  return {
    after,
    call: (number: number, name: string, input = '') => send(TO_CHILD.call, number, name, Buffer.from(input)),
    interrupt: (number: number) => send(TO_CHILD.interrupt, number),
    leave: () => process.leave(instance),
  }
}

/** A process with one instance, which has started. */
async function openProcess(source: string | Uint8Array, services: readonly string[] = []) {
  const instance = await addInstance(launch(), source, services)
  expect(await instance.after(1)).toEqual(['started'])
  return instance
}

/** What a store answers that has the name of each key as its value. */
const answerOf = ({ service, operation, args: [key] }: ServiceRequest) =>
  service === 'kv' && operation === 'get' ? { value: { answer: key } } : { failure: 'no' }

test('a guest gets the answers of its host', async () => {
  const { call, after } = await openProcess(kvGuest('get'), ['kv'])
  for (const [at, key] of ['key-0001', 'key-0002'].entries()) call(at + 1, 'get', key)
  expect(await after(2)).toEqual([
    [1, 'key-0001'],
    [2, 'key-0002'],
  ])
})

/** Runs for some hundredths of a second. */
const SPINS = guestBytes(`(module (func (export "run") (result i32) (local $i i32)
  (loop $next
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $next (i32.lt_u (local.get $i) (i32.const 20000000))))
  (i32.const 0)))`)

test('a guest that runs while its server sends nothing ends its call', async () => {
  const { call, after } = await openProcess(SPINS)
  for (const number of [1, 2]) call(number, 'run')
  expect(await after(2)).toEqual([
    [1, ''],
    [2, ''],
  ])
})

test('an interrupt that arrives before its call has begun ends it, and no other call', async () => {
  const { call, interrupt, after } = await openProcess(guest('moody'))
  const trapped = { code: 'WASM_SERVE_GUEST_TRAP' }
  call(1, 'answer', 'L') // never returns
  interrupt(1)
  expect(await after(1)).toMatchObject([[1, trapped]])
  call(2, 'answer', 'well')
  call(3, 'answer', 'L')
  call(4, 'answer', 'better')
  interrupt(3)
  expect(await after(3)).toMatchObject([
    [2, 'well'],
    [3, trapped],
    [4, 'better'],
  ])
})

test.each([
  ['succeeded', 'well'],
  ['failed', 'T'],
])('an interrupt of a call that has %s hits no guest that starts in its process', async (_how, input) => {
  const process = launch()
  const early = await addInstance(process, guest('moody'))
  early.call(1, 'answer', input)
  expect(await early.after(2)).toMatchObject(['started', [1, expect.anything()]])
  early.interrupt(1)
  const late = await addInstance(process, STARTS_SLOWLY)
  expect(await late.after(1)).toEqual(['started'])
})

/** Its start function takes some milliseconds. */
const STARTS_SLOWLY = guestBytes(`(module (memory (export "memory") 1)
  (func $start (local $i i32)
    (loop $next
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (i32.const 1000000)))))
  (start $start))`)

test('a call that arrives while its guest starts waits for it', async () => {
  const { call, after } = await addInstance(launch(), guest('moody'))
  call(1, 'answer', 'well')
  expect(await after(2)).toEqual(['started', [1, 'well']])
})

test.runIf(suspending)('a call whose host function is waited for ends as its promise does', async () => {
  const relay = `async relay(context, input) {
    if (context.read(input).text() === 'no') throw new Error('it said no')
    return input
  }`
  const functions = file('waited-for.mjs', `export default { env: { ${relay} } }`)
  const process = launch(withoutTools, readsOfModule(functions))
  const { call, after } = await addInstance(process, guest('relay'), [], functions)
  for (const [at, text] of ['yes', 'no', 'again'].entries()) call(at + 1, 'relay', text)
  expect(await after(4)).toMatchObject([
    'started',
    [1, 'yes'],
    [2, { code: expect.any(String) }],
    [3, 'again'],
  ])
})

test('a process ends with its last guest', async () => {
  const process = launch()
  const [first, last] = [
    await addInstance(process, guest('moody')),
    await addInstance(process, guest('moody')),
  ]
  expect([await first.after(1), await last.after(1)]).toEqual([['started'], ['started']])
  first.leave()
  last.call(1, 'answer', 'well')
  expect(await last.after(1)).toEqual([[1, 'well']])
  expect(process.isEnding).toBe(false)
  last.leave()
  expect(process.isEnding).toBe(true)
})

test('a process whose program cannot be started ends with the reason', async () => {
  const sandbox = await withoutTools()
  const process = launch(async () => ({ ...sandbox, command: () => ['/nowhere/node'] }))
  const { after } = await addInstance(process, guest('moody'))
  expect(await after(1)).toMatchObject([{ code: 'ENOENT' }, { code: 'ENOENT' }])
})

test('a process may have the memory of each of its routes', async () => {
  const group = new GuestProcesses({}, keepLog(), withoutTools).group('shared')
  const routes = [{}, {}]
  for (const [at, route] of routes.entries()) group.join(route, { ...NEEDS, dataBytes: 1_000 * (at + 1) })
  const process = group.choose({}, () => false)
  onTestFinished(async () => void (await process.kill()))
  expect(process.needs).toEqual({ ...NEEDS, dataBytes: 3_000 })
})

/** An engine with a process, which it shares with others of the same name. */
const openIn = (processes: GuestProcesses, name: string, options: Parameters<typeof openEngine>[2]) =>
  openEngine({ name: 'subprocess', runtime: kernel }, name, {
    processes,
    process: 'shared',
    spareWorkers: 0,
    ...options,
  })

test('routes that share a process get their turns, and no time of the others is charged to them', async () => {
  const processes = new GuestProcesses({}, keepLog(), withoutTools)
  const slow = await openIn(processes, 'moody', { timeoutMs: 800 })
  const fast = await openIn(processes, 'echo', { timeoutMs: 500 })
  await Promise.all([slow.ready, fast.ready])
  expect(await callText(fast, 'echo', 'first')).toBe('first')
  const endless = callText(slow, 'answer', 'L')
  const behind = callText(fast, 'echo', 'second')
  await expect(endless).rejects.toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
  expect(await behind).toBe('second')
})

test('a guest is ended though clients block its server again and again', async () => {
  const processes = new GuestProcesses({}, keepLog(), withoutTools)
  const engine = await openIn(processes, 'moody', { timeoutMs: 50 })
  await engine.ready
  let hasEnded = false
  const endless = callText(engine, 'answer', 'L').finally(() => (hasEnded = true))
  const settled = expect(endless).rejects.toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
  for (let blocks = 0; blocks < 100 && !hasEnded; blocks++) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 30)
    await turn()
  }
  expect(hasEnded).toBe(true)
  await settled
})

/** An instance of a process that does nothing by itself. */
function idleTenant(free: () => void = () => undefined) {
  return { isBusy: false, maxFrameBytes: 1_000, free, over: () => undefined, take: () => undefined }
}

test('an instance that has calls gets no more while another one wants its turn', () => {
  const process = launch()
  const [first, second] = [idleTenant(), idleTenant()]
  first.isBusy = true
  const asked = [first, first, second, first].map((each) => process.tryAssign(each))
  expect(asked).toEqual([true, true, false, false])
})

test('a turn is passed on until an instance has work for it', () => {
  const process = launch()
  const freed: string[] = []
  const working = idleTenant()
  process.tryAssign(working)
  working.isBusy = true
  for (const [name, hasWork] of [
    ['first', false],
    ['second', true],
    ['third', true],
  ] as const) {
    const tenant = idleTenant(() => {
      freed.push(name)
      tenant.isBusy = hasWork && process.tryAssign(tenant)
    })
    process.tryAssign(tenant)
  }
  process.passOn()
  expect(freed).toEqual(['first', 'second'])
})

test('an instance is told by which signal its process has ended', async () => {
  const process = launch()
  const { after } = await addInstance(process, guest('echo'))
  expect(await after(1)).toEqual(['started'])
  await process.kill()
  expect(String(await after(1))).toContain('its process was killed by SIGKILL')
})
