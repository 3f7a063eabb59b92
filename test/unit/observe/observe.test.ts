import type { FastifyReply, FastifyRequest } from 'fastify'
import { expect, test } from 'vitest'
import { openRaw } from '../../../src/contract/direct.ts'
import type { Engine } from '../../../src/engine/engine.ts'
import { GuestError, GuestTrapError } from '../../../src/errors/errors.ts'
import { NO_STATS } from '../../../src/observe/engine-stats.ts'
import { type Caller, type CallSpan, observeCalls, outcomeOf } from '../../../src/observe/observe.ts'
import { runCalls } from '../../../src/route/route.ts'
import { keepLog } from '../../support/instance.ts'

/** Listeners that keep what they hear. */
function keep() {
  const counted: unknown[] = []
  const ended: unknown[] = []
  const span: CallSpan = {
    outboundHeaders: () => ({ traceparent: 'of the call' }),
    happened: () => undefined,
    end: ({ queueMs }, outcome, code) => ended.push([outcome, code, queueMs !== undefined]),
  }
  const version = { calls: 0, failures: 0 }
  const listeners = {
    timing: true,
    meter: {
      count: ({ guestMs }: { guestMs: number | undefined }, outcome: string) =>
        counted.push([outcome, guestMs !== undefined]),
    },
    traces: { begin: () => span },
    version,
  }
  return { listeners, counted, ended, version }
}

/** An engine that reports to the observer as engines do, and then answers or fails. */
function fakeEngine(end: () => Uint8Array) {
  const callers: Caller[] = []
  const engine: Engine = {
    name: 'inline',
    trouble: undefined,
    ready: Promise.resolve(),
    stats: NO_STATS,
    call(_exportName, _input, caller) {
      callers.push(caller)
      caller.observer?.queued()
      caller.observer?.started()
      caller.observer?.ended()
      return end()
    },
    close: async () => undefined,
  }
  return { engine, callers }
}

/** A request and its reply: as much of them as a route uses. */
function exchange() {
  const socket = { destroyed: false }
  const request = { id: '1', log: keepLog(), raw: { socket } } as object as FastifyRequest
  const sent: unknown[] = []
  const reply = { request, header: () => reply, send: (body: unknown) => sent.push(body) }
  return { request, reply: reply as object as FastifyReply, sent, socket }
}

const contract = openRaw({})
const OUTPUT = Buffer.from('output')

test('where nothing listens there is no observer, and none is made', () => {
  expect(observeCalls({})).toBeUndefined()
  expect(observeCalls({ timing: false, meter: undefined, traces: undefined })).toBeUndefined()
  const { engine, callers } = fakeEngine(() => OUTPUT)
  const { request, reply, sent } = exchange()
  const observe = observeCalls({})
  runCalls({ exportName: 'run', contract, isDirect: false, engine, observe })(request, reply)
  expect(sent).toEqual([OUTPUT])
  expect(callers[0]?.observer).toBeUndefined()
})

test('an engine gets a caller and no request, and sees when the client goes away', () => {
  const { engine, callers } = fakeEngine(() => OUTPUT)
  const { request, reply, socket } = exchange()
  runCalls({ exportName: 'run', contract, isDirect: false, engine, observe: undefined })(request, reply)
  const [caller] = callers
  expect(caller).not.toBe(request)
  expect(caller?.host).toBe(request)
  expect(caller?.log).toBe(request.log)
  expect(caller?.isGone).toBe(false)
  socket.destroyed = true
  expect(caller?.isGone).toBe(true)
})

test('all listeners of a call hear of its end, once', () => {
  const { listeners, counted, ended, version } = keep()
  const { engine, callers } = fakeEngine(() => OUTPUT)
  const { request, reply } = exchange()
  const observe = observeCalls(listeners)
  runCalls({ exportName: 'run', contract, isDirect: false, engine, observe })(request, reply)
  expect(counted).toEqual([['ok', true]])
  expect(ended).toEqual([['ok', undefined, true]])
  expect(version).toEqual({ calls: 1, failures: 0 })
  expect(request.observedCall).toBe(callers[0]?.observer)
  expect(callers[0]?.observer?.outboundHeaders?.()).toEqual({ traceparent: 'of the call' })
})

test.each([
  ['the guest said no', new GuestError('no'), 'guest_error', 0],
  ['the guest trapped', new GuestTrapError('run', { cause: {} }), 'trap', 1],
  ['something else failed', new TypeError('a bug'), 'error', 1],
])('a call that the engine fails is settled with its outcome: %s', (_, error, outcome, failures) => {
  const { listeners, counted, ended, version } = keep()
  const { engine } = fakeEngine(() => {
    throw error
  })
  const { request, reply, sent } = exchange()
  const observe = observeCalls(listeners)
  runCalls({ exportName: 'run', contract, isDirect: false, engine, observe })(request, reply)
  expect(sent).toEqual([error])
  expect(counted).toEqual([[outcome, true]])
  expect(ended).toEqual([[outcome, 'code' in error ? error.code : '', true]])
  expect(version).toEqual({ calls: 1, failures })
})

test('an output that is no answer is a failure of the answer, and none of the call', () => {
  const { listeners, counted, ended, version } = keep()
  const { engine } = fakeEngine(() => OUTPUT)
  const { request, reply } = exchange()
  const broken = {
    ...contract,
    answer: () => {
      throw Object.assign(new Error('no answer'), { code: 'WASM_SERVE_CONTRACT_BROKEN' })
    },
  }
  const observe = observeCalls(listeners)
  runCalls({ exportName: 'run', contract: broken, isDirect: false, engine, observe })(request, reply)
  expect(counted).toEqual([['contract_broken', true]])
  expect(ended).toEqual([['ok', undefined, true]])
  expect(version).toEqual({ calls: 1, failures: 0 })
})

test('an input that the contract refuses is no call', () => {
  const { listeners, counted, ended, version } = keep()
  const { engine } = fakeEngine(() => OUTPUT)
  const { request, reply, sent } = exchange()
  const refusal = new Error('no input')
  const refusing = {
    ...contract,
    input: () => {
      throw refusal
    },
  }
  const observe = observeCalls(listeners)
  runCalls({ exportName: 'run', contract: refusing, isDirect: false, engine, observe })(request, reply)
  expect(sent).toEqual([refusal])
  expect([counted, ended, version, request.observedCall]).toEqual([
    [],
    [],
    { calls: 0, failures: 0 },
    undefined,
  ])
})

test('of a call whose thread was lost nobody knows how long it waited', () => {
  const { listeners } = keep()
  const { request } = exchange()
  const call = observeCalls(listeners)?.(request)
  call?.queued()
  expect(call?.queueMs).toBeGreaterThanOrEqual(0)
  call?.settled(outcomeOf('WASM_SERVE_WORKER_LOST'), 'WASM_SERVE_WORKER_LOST')
  expect([call?.queueMs, call?.guestMs]).toEqual([undefined, undefined])
})
