import { expect, onTestFinished, test } from 'vitest'
import { FROM_CHILD, TO_CHILD } from '../../src/engine/subprocess/frames.ts'
import { GuestProcess } from '../../src/engine/subprocess/guest-process.ts'
import { type ProcessStart, pack, readHostRequest, unpack } from '../../src/engine/subprocess/packed.ts'
import { openSandbox } from '../../src/engine/subprocess/sandbox.ts'
import type { ServiceRequest } from '../../src/guest/services/service.ts'
import { compilePlugin } from '../../src/plugin/plugin.ts'
import { readSource } from '../../src/plugin/source/source.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { keepLog, settingsOf } from '../support/instance.ts'
import { kvGuest } from '../support/kv-guest.ts'

/** A process with one instance, and the results of its calls. */
async function openProcess(source: string | Uint8Array, services: readonly string[] = []) {
  const how = { compiles: false, isolation: 'reuse', interrupts: 'on' } as const
  const { uncompiled } = await compilePlugin(await readSource(source), how)
  const { log: _log, ...settings } = settingsOf()
  const start: ProcessStart = {
    plugin: { name: 'guest', digest: '', modules: uncompiled ?? [] },
    settings,
    functions: undefined,
    isolation: { isolation: 'reuse', recycleMemory: Number.POSITIVE_INFINITY },
    services,
  }
  const process = new GuestProcess({
    sandbox: () => openSandbox(undefined, []),
    cgroup: undefined,
    needs: { heapMiB: 128, dataBytes: 4 * 2 ** 30, reads: [], writes: [] },
    log: keepLog(),
  })
  onTestFinished(async () => void (await process.kill()))
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
  expect(await after(1)).toEqual(['started'])
  return {
    after,
    call: (number: number, name: string, input = '') => send(TO_CHILD.call, number, name, Buffer.from(input)),
    interrupt: (number: number) => send(TO_CHILD.interrupt, number),
  }
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
