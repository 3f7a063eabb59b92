import { describe, expect, test } from 'vitest'
import type { GuestHttp, HttpResponse } from '../../../src/guest/outbound/guest-http.ts'
import { openVars } from '../../../src/guest/vars.ts'
import { CHECK_EXPORT } from '../../../src/module/names.ts'
import { GuestLog } from '../../../src/observe/log/guest-log.ts'
import { CheckBudget } from '../../../src/runtime/check-budget.ts'
import {
  HttpCalls,
  type HttpErrors,
  kernelHostFunctions,
  refuseHttp,
} from '../../../src/runtime/kernel-host.ts'
import { openKernelMemory } from '../../../src/runtime/kernel-memory.ts'
import { keepLog } from '../../support/instance.ts'

/** The host of a guest; its HTTP service answers with these responses, one after another. */
function open(responses: readonly (HttpResponse | Promise<HttpResponse>)[] = [], errors?: HttpErrors) {
  const lines = keepLog()
  const log = new GuestLog(lines, {}, true)
  const memory = openKernelMemory(1_000_000)
  const left = [...responses]
  const sent: [request: string, body: string, caller: unknown][] = []
  const service: GuestHttp = {
    isAsync: true,
    send(request, body, caller) {
      sent.push([Buffer.from(request).toString(), Buffer.from(body).toString(), caller])
      return left.shift() ?? refuseHttp.send(request, body, caller)
    },
  }
  const http = new HttpCalls(service, memory, log, errors)
  const config = { key: 'value', empty: '' }
  const functions = kernelHostFunctions({ memory, config, vars: openVars(100), log, http })
  const call = (name: string, ...args: readonly bigint[]): unknown => {
    const run = functions[name]
    if (typeof run !== 'function') throw new Error(`no function ${name}`)
    return run(...args)
  }
  const put = (text: string | Uint8Array) => memory.store(Buffer.from(text))
  const text = (at: unknown) =>
    typeof at === 'bigint' && at !== 0n ? Buffer.from(memory.read(at)).toString() : at
  return { call, put, text, http, sent, lines: lines.lines }
}

const response = (body: string, status = 200): HttpResponse => ({
  status,
  headers: status === 200 ? Buffer.from('{"a":"b"}') : undefined,
  body: Buffer.from(body),
})

describe('a guest', () => {
  test('reads its configuration, of which nothing is inherited', () => {
    const { call, put, text } = open()
    expect(text(call('config_get', put('key')))).toBe('value')
    for (const name of ['empty', 'other', 'toString', '__proto__'])
      expect(call('config_get', put(name))).toBe(0n)
  })

  test('has variables, until it deletes them', () => {
    const { call, put, text } = open()
    expect(call('var_get', put('v'))).toBe(0n)
    call('var_set', put('v'), put('one'))
    call('var_set', put('\ufeffv'), put('two'))
    expect(text(call('var_get', put('v')))).toBe('one')
    expect(text(call('var_get', put('\ufeffv')))).toBe('two')
    call('var_set', put('v'), 0n)
    expect(call('var_get', put('v'))).toBe(0n)
  })

  test('gives names that are UTF-8, and blocks that there are', () => {
    const { call, put } = open()
    for (const name of ['config_get', 'var_get']) {
      expect(() => call(name, put(Uint8Array.of(0xff)))).toThrow(TypeError)
      expect(() => call(name, 12_345n)).toThrow()
    }
  })

  test('logs at each level, and what is too long is cut', () => {
    const { call, put, lines } = open()
    const levels = ['trace', 'debug', 'info', 'warn', 'error']
    for (const level of levels) call(`log_${level}`, put(`at ${level}`))
    call('log_info', put('x'.repeat(200_000)))
    call('log_info', put(Uint8Array.of(0x61, 0xff)))
    expect(lines.slice(0, 5).map(({ level, message }) => [level, message])).toEqual(
      levels.map((level) => [level, `at ${level}`]),
    )
    expect(lines.length).toBe(7)
    expect(lines[5]?.message.length).toBeLessThan(70_000)
    expect(lines[6]?.message).toBe('a\ufffd')
    expect(call('get_log_level')).toBe(0)
  })
})

describe('a request of a guest', () => {
  const caller = { log: keepLog() }

  test('is sent with its caller, and has a response until the call ends', () => {
    const { call, put, text, http, sent } = open([response('hello')])
    http.begin(caller)
    expect([call('http_status_code'), call('http_headers')]).toEqual([0, 0n])
    expect(text(call('http_request', put('{}'), put('body')))).toBe('hello')
    expect(sent).toEqual([['{}', 'body', caller]])
    expect([call('http_status_code'), text(call('http_headers'))]).toEqual([200, '{"a":"b"}'])
    http.end()
    expect([call('http_status_code'), call('http_headers'), http.isAsync]).toEqual([0, 0n, true])
  })

  test('may be answered later', async () => {
    const { call, put, text, http } = open([Promise.resolve(response('later', 404))])
    http.begin(caller)
    const answer = call('http_request', put('{}'), 0n)
    expect(answer).toBeInstanceOf(Promise)
    expect(text(await answer)).toBe('later')
    expect([call('http_status_code'), call('http_headers')]).toEqual([404, 0n])
  })

  test('that fails ends the call, or is an answer with a reason', () => {
    const failed = response('no such host', 0)
    const trapped = open([failed])
    trapped.http.begin(caller)
    expect(() => trapped.call('http_request', trapped.put('{}'), 0n)).toThrow('http_request: no such host')
    expect(trapped.lines).toEqual([])
    const told = open([failed], 'status')
    told.http.begin(caller)
    expect(told.text(told.call('http_request', told.put('{}'), 0n))).toBe('no such host')
    expect([told.call('http_status_code'), told.lines.map(({ level, message }) => [level, message])]).toEqual(
      [0, [['warn', 'no such host']]],
    )
  })

  test('that fails while the guest starts is in the log only', () => {
    const { call, put, lines } = open([response('a secret reason', 0)])
    expect(() => call('http_request', put('{}'), 0n)).toThrow(/^http_request: the log has the reason$/)
    expect(lines.map(({ message }) => message)).toEqual(['a secret reason'])
  })

  test('is one of 32 of its call', () => {
    const { call, put, text, http, sent } = open(
      Array.from({ length: 64 }, () => response('ok')),
      'status',
    )
    const request = () => text(call('http_request', put('{}'), 0n))
    for (const calls of [1, 2]) {
      http.begin(caller)
      for (let count = 0; count < 32; count++) expect(request()).toBe('ok')
      expect(request()).toMatch(/at most 32/)
      expect(sent).toHaveLength(32 * calls)
      http.end()
    }
  })

  test('is refused where there is no service', () => {
    const { call, put } = open()
    expect(() => call('http_request', put('{}'), 0n)).toThrow()
    expect(refuseHttp.isAsync).toBe(false)
  })
})

describe('the checks of a call', () => {
  test('are counted, and spent when there are more', () => {
    const budget = new CheckBudget(3)
    budget.begin()
    expect([budget.used, budget.isSpent]).toEqual([0, false])
    budget.left.value -= 3
    expect([budget.used, budget.isSpent]).toEqual([3, false])
    budget.left.value -= 1
    expect([budget.used, budget.isSpent]).toEqual([3, true])
    budget.begin()
    expect([budget.used, budget.isSpent]).toEqual([0, false])
    budget.beginStart()
    expect([budget.left.value > 1e9, budget.isSpent]).toEqual([true, false])
  })

  test('begin at the same place in each call, in modules that count', () => {
    const budget = new CheckBudget(3)
    budget.add({})
    expect(budget.isCounted).toBe(false)
    const counter = new WebAssembly.Global({ value: 'i32', mutable: true }, 5)
    budget.add({ [CHECK_EXPORT.counter]: counter })
    budget.begin()
    expect([budget.isCounted, counter.value]).toEqual([true, 0])
  })
})
