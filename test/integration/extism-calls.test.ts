import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import {
  CAPABILITIES,
  type CallContext,
  createPlugin,
  type ExtismPluginOptions,
  type Plugin,
} from '../../src/extism.ts'
import { extismGuest } from '../support/extism-guest.ts'
import { guestBytes } from '../support/guest.ts'

/* Calls of one plug-in that are made at the same time, and calls that are made during a call. */

const open: Plugin[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((plugin) => plugin.close()))
})

const text = async (called: ReturnType<Plugin['call']>) => (await called)?.text()
const messageOf = (called: Promise<unknown>): Promise<string> =>
  called.then(
    () => 'no error',
    (error: Error) => error.message,
  )
const isSettled = async (promise: Promise<unknown>): Promise<boolean> => {
  const open = Symbol('open')
  for (let i = 0; i < 20; i++) await nextTurn()
  return (await Promise.race([promise, open])) !== open
}

const echo = extismGuest(`
  (func (export "copy") (call $answer (call $copy)))
  (func (export "trap") (unreachable))`)

const asking = extismGuest(`
  (func (export "copy") (call $answer (call $copy)))
  (func (export "trap") (unreachable))
  (func (export "get") (call $answer (call $http_request (call $copy) (i64.const 0))))`)

const relay = extismGuest(`
  (import "extism:host/user" "relay" (func $relay (param i64) (result i64)))
  (func (export "run") (call $answer (call $relay (call $copy))))
  (func (export "copy") (call $answer (call $copy)))`)

/** The modes in which a host function may wait. */
const WAITING: [string, boolean][] = [
  ['in a worker', true],
  ...(CAPABILITIES.supportsJSPromiseInterface ? [['inline', false] satisfies [string, boolean]] : []),
]

async function openPlugin(data: Uint8Array, options: ExtismPluginOptions): Promise<Plugin> {
  const opened = await createPlugin({ wasm: [{ data }] }, options)
  open.push(opened)
  return opened
}

test('programs that use the SDK of Extism find the capabilities that it would have here', () => {
  expect(CAPABILITIES).toMatchObject({
    ...{ allowSharedBufferCodec: false, manifestSupportsPaths: true, crossOriginChecksEnforced: false },
    ...{ fsAccess: true, hasWorkerCapability: true, supportsWasiPreview1: true, supportsTimeouts: true },
  })
})

describe.each([
  ['inline', false],
  ['in a worker', true],
])('%s', (_, runInWorker) => {
  test.each([
    ['no requests', echo],
    ['requests', asking],
  ])('calls of a guest that can send %s run one after the other, and failures fail alone', async (__, data) => {
    const made = await openPlugin(data, { runInWorker })
    const inputs = Array.from({ length: 20 }, (___, i) => `call ${i}`)
    const calls = inputs.map((input, i) =>
      i % 5 === 4 ? messageOf(made.call('trap', input)) : text(made.call('copy', input)),
    )
    expect(await Promise.all(calls)).toEqual(inputs.map((input, i) => (i % 5 === 4 ? 'unreachable' : input)))
    expect(made.isActive()).toBe(false)
  })

  test('a plug-in whose guest does not start is not opened', async () => {
    await expect(openPlugin(guestBytes('bad-start'), { runInWorker })).rejects.toThrow('unreachable')
  })

  test('an input may be changed while its call waits', async () => {
    const made = await openPlugin(asking, { runInWorker })
    const input = new Uint8Array(10_000)
    const [, ...waited] = await Promise.all(
      ['a', 'b', 'c'].map((letter) => text(made.call('copy', input.fill(letter.charCodeAt(0))))),
    )
    expect(waited).toEqual(['b'.repeat(10_000), 'c'.repeat(10_000)])
  })
})

describe.each(WAITING)('%s', (_, runInWorker) => {
  /** A plug-in whose host function does as it is told. */
  const withRelay = (relayed: (context: CallContext, at: bigint) => Promise<bigint>) =>
    openPlugin(relay, {
      runInWorker,
      functions: { 'extism:host/user': { relay: async (c: CallContext, at: bigint) => relayed(c, at) } },
    })

  test('calls from outside wait, also if they are made while a host function waits', async () => {
    let go: () => void = () => undefined
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    const made = await withRelay(async (_context, at) => {
      await gate
      return at
    })
    const first = text(made.call('run', 'first'))
    const later = [text(made.call('run', 'second')), text(made.call('copy', 'third'))]
    await nextTurn()
    later.push(text(made.call('run', 'fourth')))
    expect(made.isActive()).toBe(true)
    expect(await made.reset()).toBe(false)
    expect(await isSettled(Promise.race(later))).toBe(false)
    go()
    expect(await Promise.all([first, ...later])).toEqual(['first', 'second', 'third', 'fourth'])
    expect(made.isActive()).toBe(false)
    expect(await made.reset()).toBe(true)
  })

  test('a host function cannot call its plug-in, neither at once nor after it waited', async () => {
    const made: Plugin = await withRelay(async (context) => {
      const atOnce = await messageOf(made.call('copy', 'x'))
      await nextTurn()
      await new Promise((resolve) => setTimeout(resolve, 1))
      return context.store(`${atOnce}, ${await messageOf(made.call('copy', 'x'))}`)
    })
    const outside = text(made.call('run', 'x'))
    expect(await outside).toBe('plugin is not reentrant, plugin is not reentrant')
    expect(await text(made.call('copy', 'x'))).toBe('x')
  })

  test('a host function cannot call its plug-in through another plug-in', async () => {
    const outer: Plugin = await withRelay(async (context, at) =>
      context.store((await text(inner.call('run', context.read(at)?.text()))) ?? ''),
    )
    const inner: Plugin = await withRelay(async (context) =>
      context.store(await messageOf(outer.call('copy', 'x'))),
    )
    expect(await text(outer.call('run', 'x'))).toBe('plugin is not reentrant')
    expect(await text(inner.call('run', 'x'))).toBe('no error')
  })

  test('two plug-ins whose host functions call each other at the same time do not wait for each other', async () => {
    let arrived = 0
    let go: () => void = () => undefined
    const both = new Promise<void>((resolve) => {
      go = resolve
    })
    const calling = (other: () => Plugin) => async (context: CallContext) => {
      if (++arrived === 2) go()
      await both
      return context.store(await messageOf(other().call('copy', 'x')))
    }
    const left: Plugin = await withRelay(calling(() => right))
    const right: Plugin = await withRelay(calling(() => left))
    const answers = await Promise.all([text(left.call('run', 'x')), text(right.call('run', 'x'))])
    expect(answers.sort()).toEqual(['no error', 'plugin is not reentrant'])
  })

  test('what a host function began may call the plug-in after the call', async () => {
    const later: Promise<unknown>[] = []
    let go: () => void = () => undefined
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    const made: Plugin = await withRelay(async (_context, at) => {
      later.push(gate.then(() => text(made.call('copy', 'later'))))
      return at
    })
    expect(await text(made.call('run', 'now'))).toBe('now')
    go()
    expect(await Promise.all(later)).toEqual(['later'])
  })

  test('a function of the user that fetches for the guest cannot call it', async () => {
    const fetch = async () => new Response(await messageOf(made.call('copy', 'x')))
    const made: Plugin = await openPlugin(asking, { runInWorker, allowedHosts: ['*'], fetch })
    const request = JSON.stringify({ url: 'http://a.test/' })
    expect(await text(made.call('get', request))).toBe('plugin is not reentrant')
  })
})

test('a function that returns a promise without being async is named, unless the guest can wait for it', async () => {
  const functions = { 'extism:host/user': { relay: (_: CallContext, at: bigint) => Promise.resolve(at) } }
  const inline = await openPlugin(relay, { functions })
  await expect(inline.call('run', 'x')).rejects.toThrow(
    'host function "extism:host/user" "relay" returned a promise',
  )
  expect(await text(inline.call('copy', 'x'))).toBe('x')
  expect(await text((await openPlugin(relay, { functions, runInWorker: true })).call('run', 'x'))).toBe('x')
})

test('close rejects the calls that run and wait in a worker, and waits for none', async () => {
  const made = await openPlugin(relay, {
    runInWorker: true,
    functions: { 'extism:host/user': { relay: () => new Promise(() => undefined) } },
  })
  const calls = [made.call('run', 'x'), made.call('copy', 'x'), made.call('copy', 'x')]
  const settled = Promise.allSettled(calls)
  await made.close()
  const code = 'WASM_SERVE_EXTISM_PLUGIN_CLOSED'
  for (const each of await settled) expect(each).toMatchObject({ status: 'rejected', reason: { code } })
  await expect(made.call('copy', 'x')).rejects.toThrow('worker not initialized')
})

test('a call that waits behind one that is ended by its time limit runs in the new thread', async () => {
  const looping = extismGuest(`
    (func (export "loop") (loop $again (br $again)))
    (func (export "copy") (call $answer (call $copy)))`)
  const made = await openPlugin(looping, { runInWorker: true, timeoutMs: 300 })
  const calls = [
    messageOf(made.call('loop')),
    text(made.call('copy', 'second')),
    text(made.call('copy', 'third')),
  ]
  expect(await Promise.all(calls)).toEqual(['EXTISM: call canceled due to timeout', 'second', 'third'])
})
