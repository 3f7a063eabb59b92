import { expect, test } from 'vitest'
import { Instances, type InstancesOptions } from '../../../src/engine/instances.ts'
import { GuestError, GuestTrapError } from '../../../src/errors/errors.ts'
import type { CompiledPlugin } from '../../../src/plugin/plugin.ts'
import type { Instance, Runtime } from '../../../src/runtime/runtime.ts'
import { keepLog, settingsOf } from '../../support/instance.ts'

/** A guest that waits until the test lets it continue. */
class SuspendedGuest implements Instance {
  memoryBytes = 100_000
  readonly kernelBytes = 50_000
  hasExited = false
  isClosed = false
  readonly #waiting: ((output: Promise<Uint8Array>) => void)[] = []

  call(): Promise<Uint8Array> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Ends the oldest call. */
  end(output: string | Error): void {
    const bytes = output instanceof Error ? Promise.reject(output) : Promise.resolve(Buffer.from(output))
    this.#waiting.shift()?.(bytes)
  }

  async close(): Promise<void> {
    this.isClosed = true
  }
}

async function open(options: Partial<InstancesOptions> = {}) {
  const guests: SuspendedGuest[] = []
  const runtime: Runtime = {
    name: 'kernel',
    open() {
      const guest = new SuspendedGuest()
      guests.push(guest)
      return guest
    },
  }
  const pool = new Instances({
    plugin: { name: 'suspended' } as CompiledPlugin,
    runtime,
    settings: settingsOf(),
    isolation: 'reuse',
    recycleMemory: Number.POSITIVE_INFINITY,
    ...options,
  })
  await pool.openFirst()
  const call = () => {
    const caller = { log: keepLog() }
    return pool.call('run', new Uint8Array(), caller)
  }
  return { pool, guests, call }
}

test('each call has an instance to itself, and instances are used again', async () => {
  const { pool, guests, call } = await open()
  const calls = [call(), call(), call()]
  expect([guests.length, pool.stats]).toMatchObject([3, { running: 3, instances: 3, guestBytes: 150_000 }])
  for (const [index, guest] of guests.entries()) guest.end(`output ${index}`)
  const outputs = await Promise.all(calls)
  expect(outputs.map(String)).toEqual(['output 0', 'output 1', 'output 2'])
  const again = call()
  expect(guests).toHaveLength(3)
  guests[2]?.end('again')
  expect(String(await again)).toBe('again')
})

test('instances beyond those that may be needed soon are closed', async () => {
  const { pool, guests, call } = await open()
  const calls = Array.from({ length: 40 }, call)
  for (const guest of guests) guest.end('')
  await Promise.all(calls)
  expect([pool.stats.running, pool.stats.instances]).toEqual([0, 8])
  expect(guests.filter(({ isClosed }) => !isClosed)).toHaveLength(8)
  await pool.close()
  expect(guests.every(({ isClosed }) => isClosed)).toBe(true)
})

test('after an error that the guest set its instance continues, and after a trap it does not', async () => {
  const { pool, guests, call } = await open()
  const refused = call()
  guests[0]?.end(new GuestError('no'))
  await expect(refused).rejects.toMatchObject({ code: 'WASM_SERVE_GUEST_ERROR' })
  expect(guests[0]?.isClosed).toBe(false)
  const trapped = call()
  guests[0]?.end(new GuestTrapError('run', { cause: { reason: 'unreachable' } }))
  await expect(trapped).rejects.toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
  expect([guests[0]?.isClosed, pool.stats.restarted, pool.stats.instances]).toEqual([true, 1, 0])
})

test('an instance that is fresh has one call, and one that is worn is replaced', async () => {
  const { pool, guests, call } = await open({ isolation: 'fresh' })
  for (let number = 0; number < 3; number++) {
    const output = call()
    guests[number]?.end('')
    await output
  }
  expect([guests.every(({ isClosed }) => isClosed), pool.stats.recycled]).toEqual([true, 3])
})

test('closing waits for the calls that run, and refuses others', async () => {
  const { pool, guests, call } = await open()
  const output = call()
  let isClosed = false
  const closing = pool.close().then(() => (isClosed = true))
  await expect(call()).rejects.toMatchObject({ code: 'WASM_SERVE_ENGINE_CLOSED' })
  expect(isClosed).toBe(false)
  guests[0]?.end('last')
  expect(String(await output)).toBe('last')
  await closing
})
