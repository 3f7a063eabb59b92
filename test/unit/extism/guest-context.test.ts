import { describe, expect, test } from 'vitest'
import { GuestContext, type LogLevel, type MemoryOptions } from '../../../src/extism/guest-context.ts'
import { requestFunctions } from '../../../src/extism/guest-requests.ts'
import { openKernelBlocks } from '../../../src/extism/kernel-blocks.ts'

function open({ memory = {}, logLevel = 'trace' }: { memory?: MemoryOptions; logLevel?: LogLevel } = {}) {
  const lines: [level: string, line: string][] = []
  const at = (level: string) => (line: string) => void lines.push([level, line])
  const logger = {
    trace: at('trace'),
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
  }
  const blocks = openKernelBlocks((memory.maxPages ?? 100) * 65_536)
  const config = { key: 'value' }
  const context = new GuestContext({ blocks, logger, logLevel, config, memory })
  const imports = GuestContext.importsOf(context)
  const call = (name: string, ...args: readonly bigint[]): unknown => {
    const run = imports[name]
    if (typeof run !== 'function') throw new Error(`no function ${name}`)
    return run(...args)
  }
  const text = (place: unknown) => (typeof place === 'bigint' ? context.read(place)?.text() : undefined)
  return { context, blocks, call, text, lines, logger }
}

describe('a context', () => {
  test('stores and reads blocks', () => {
    const { context, text } = open()
    expect([text(context.store('text')), text(context.store(Uint8Array.of(0x61)))]).toEqual(['text', 'a'])
    const at = context.alloc(5)
    expect([context.length(at), context.length(at + 1n), context.read(at + 1n)]).toEqual([5n, 0n, null])
    expect(context.read(0n)?.byteLength).toBe(0)
    expect(context.read(at)).toBe(context.read(Number(at)))
  })

  test('writes back what a host function changed, and nothing else', async () => {
    const { context, text } = open()
    const [changed, read] = [context.store('aaa'), context.store('bbb')]
    GuestContext.run(
      context,
      () => [context.read(read)?.text(), context.read(changed)?.bytes().fill(0x63)],
      [],
    )
    expect([text(changed), text(read)]).toEqual(['ccc', 'bbb'])
    await GuestContext.run(context, async () => context.read(read)?.bytes().fill(0x64), [])
    expect(text(read)).toBe('ddd')
  })

  test('has the input as it was when a guest began to wait', async () => {
    const { context, blocks, call, text } = open()
    const input = new Uint8Array(10_000).fill(0x61)
    blocks.input(input)
    const at = call('input_offset')
    const waited = GuestContext.runAsync(context, async () => text(at), [])
    input.fill(0x62)
    expect([await waited, text(at)]).toEqual(['a'.repeat(10_000), 'a'.repeat(10_000)])
  })

  test('has variables up to a limit', () => {
    const { context } = open({ memory: { maxVarBytes: 6 } })
    context.setVariable('a', 'abc')
    context.setVariable('b', Uint8Array.of(1, 2, 3))
    expect(() => context.setVariable('c', 'x')).toThrow('limit exceeded')
    context.setVariable('a', 'xyz')
    expect(() => context.setVariable('a', 'four')).toThrow('limit exceeded')
    expect(context.getVariable('a')?.text()).toBe('xyz')
    context.deleteVariable('a')
    context.deleteVariable('none')
    context.setVariable('c', 'abc')
    expect([context.getVariable('a'), context.getVariable('c')?.text()]).toEqual([null, 'abc'])
    expect(() => open({ memory: { maxVarBytes: 0 } }).context.setVariable('a', '')).toThrow('limit exceeded')
  })

  test('has the context of the host during a call', () => {
    const { context } = open()
    GuestContext.begin(context, 7)
    expect(context.hostContext()).toBe(7)
    GuestContext.end(context)
    expect(context.hostContext()).toBeNull()
  })

  test('has an error, which may be empty', () => {
    const { context, blocks } = open()
    context.setError(new Error('wrong'))
    expect(blocks.error()).toBe('wrong')
    context.setError('')
    expect(blocks.error()).toBe('')
    expect(() => context.setError()).toThrow('could not store error value')
  })

  test.each([
    'trace',
    'debug',
    'info',
    'warn',
    'error',
    'silent',
  ] as const)('logs from its level on: %s', (level) => {
    const { context, call, lines } = open({ logLevel: level })
    expect(context.logLevel).toBe(level)
    const levels = ['trace', 'debug', 'info', 'warn', 'error']
    for (const each of levels) call(`log_${each}`, context.store(each))
    expect(lines.map(([each]) => each)).toEqual(level === 'silent' ? [] : levels.slice(levels.indexOf(level)))
    context.logLevel = 'error'
    expect([context.logLevel, call('get_log_level')]).toEqual(['error', 4])
    context.logLevel = 'silent'
    expect(Number(call('get_log_level'))).toBeGreaterThan(4)
  })
})

describe('a guest', () => {
  test('reads its configuration and variables, whose names are taken from it', () => {
    const { context, call, text, blocks } = open()
    const name = context.store('key')
    expect(text(call('config_get', name))).toBe('value')
    expect(blocks.lengthOf(name)).toBeUndefined()
    for (const other of ['none', 'toString']) expect(call('config_get', context.store(other))).toBe(0n)
    call('var_set', context.store('v'), context.store('one'))
    expect(text(call('var_get', context.store('v')))).toBe('one')
    call('var_set', context.store('v'), 0n)
    expect(call('var_get', context.store('v'))).toBe(0n)
  })

  test('that names no block is told so in the log', () => {
    const { context, call, lines } = open()
    call('var_set', 12_345n, 0n)
    call('var_set', context.store('v'), 12_345n)
    call('log_info', 12_345n)
    expect(lines.map(([level]) => level)).toEqual(['error', 'error', 'error'])
    expect(context.getVariable('v')).toBeNull()
    expect([call('config_get', 12_345n), call('var_get', 12_345n)]).toEqual([0n, 0n])
  })

  test('whose variable has no room gets an error', () => {
    const { context, call, lines, blocks } = open({ memory: { maxVarBytes: 2 } })
    call('var_set', context.store('v'), context.store('abc'))
    expect(blocks.error()).toMatch(/limit exceeded/)
    expect(lines).toEqual([['error', blocks.error()]])
  })

  test('that has no room for blocks is told so in the log', () => {
    const { context, call, lines } = open({ memory: { maxPages: 1 } })
    expect([call('alloc', 100_000n), call('alloc', 0n), lines.length]).toEqual([0n, 0n, 1])
    expect(context.alloc(100_000)).toBe(0n)
    expect(() => context.store(new Uint8Array(100_000))).toThrow('failed to store output')
    expect(lines.map(([level, line]) => [level, line.includes('1 pages')])).toEqual(
      Array(3).fill(['error', true]),
    )
    expect(call('alloc', 100n)).not.toBe(0n)
  })

  test('that cannot wait has no requests', () => {
    const { call, lines } = open()
    expect([call('http_request', 0n, 0n), call('http_status_code'), call('http_headers')]).toEqual([
      0n,
      0,
      0n,
    ])
    expect(lines).toHaveLength(3)
  })
})

describe('a request', () => {
  const NOBODY = {
    allowedPaths: {},
    config: {},
    timeoutMs: undefined,
    useWasi: false,
    enableWasiOutput: false,
  } as const

  function openRequests(
    answer: (url: URL) => Response,
    memory: MemoryOptions = {},
    allowHttpResponseHeaders = true,
  ) {
    const opened = open({ memory })
    const sent: { url: string; method: string | undefined; headers: Record<string, string>; body: string }[] =
      []
    const functions = requestFunctions({
      ...NOBODY,
      ...{ allowedHosts: ['*.example'], memory, logger: opened.logger, logLevel: 'trace', functions: {} },
      ...{ allowHttpResponseHeaders, nodeWorkerArgs: {} },
      fetch: async (url, init) => {
        const body = init?.body instanceof Uint8Array ? Buffer.from(init.body).toString() : ''
        sent.push({
          url: String(url),
          method: init?.method,
          headers: Object.fromEntries(new Headers(init?.headers)),
          body,
        })
        return answer(new URL(String(url)))
      },
    })
    const call = (name: string, ...args: readonly bigint[]): unknown =>
      functions[name]?.(opened.context, ...args)
    const send = async (request: object, body?: string) =>
      opened.text(
        await call(
          'http_request',
          opened.context.store(JSON.stringify(request)),
          body === undefined ? 0n : opened.context.store(body),
        ),
      )
    return { ...opened, call, send, sent }
  }

  const HEADERS = {
    authorization: 'a',
    cookie: 'b',
    'content-type': 'text/x',
    'content-language': 'de',
    'x-a': 'c',
  }
  const post = { url: 'https://a.example/', method: 'post', headers: HEADERS }

  test('is sent, and has a status, headers and a body', async () => {
    const { send, call, sent, text } = openRequests(
      () => new Response('hello', { status: 201, headers: { 'x-b': 'd' } }),
    )
    expect([call('http_status_code'), text(call('http_headers'))]).toEqual([0, '{}'])
    expect(await send(post, 'body')).toBe('hello')
    expect(sent).toEqual([{ url: post.url, method: 'POST', headers: HEADERS, body: 'body' }])
    expect(call('http_status_code')).toBe(201)
    expect(JSON.parse(text(call('http_headers')) ?? '')).toMatchObject({ 'x-b': 'd' })
    await send({ url: post.url, header: { 'x-c': 'e' } }, 'no body of a GET')
    expect(sent[1]).toEqual({ url: post.url, method: 'GET', headers: { 'x-c': 'e' }, body: '' })
  })

  test('has no headers of its response unless that is allowed', async () => {
    const { send, call } = openRequests(() => new Response('hello'), {}, false)
    await send(post)
    expect(call('http_headers')).toBe(0n)
  })

  test.each([
    [301, 'GET', ''],
    [302, 'GET', ''],
    [303, 'GET', ''],
    [307, 'POST', 'body'],
    [308, 'POST', 'body'],
  ])('that is redirected by %i becomes a %s, with the body %j', async (status, method, body) => {
    const { send, sent } = openRequests(({ pathname }) =>
      pathname === '/'
        ? new Response(null, { status, headers: { location: '/next' } })
        : new Response('there'),
    )
    expect(await send(post, 'body')).toBe('there')
    const kept = method === 'GET' ? { authorization: 'a', cookie: 'b', 'x-a': 'c' } : HEADERS
    expect(sent[1]).toEqual({ url: 'https://a.example/next', method, headers: kept, body })
  })

  test('gives no credentials to another origin, and goes to no host that is not allowed', async () => {
    const { send, sent } = openRequests(({ hostname }) => {
      if (hostname === 'c.example') return new Response('there')
      const location = hostname === 'a.example' ? 'https://b.example/' : 'https://other.test/'
      return new Response(null, { status: 307, headers: { location } })
    })
    await expect(send(post, 'body')).rejects.toThrow('no allowedHosts match "other.test"')
    expect(sent.map(({ url }) => url)).toEqual(['https://a.example/', 'https://b.example/'])
    expect(sent[1]?.headers).toEqual({ 'content-type': 'text/x', 'content-language': 'de', 'x-a': 'c' })
  })

  test('follows no more than twenty redirects', async () => {
    const { send, sent } = openRequests(() => new Response(null, { status: 302, headers: { location: '/' } }))
    await expect(send(post)).rejects.toThrow('too many redirects')
    expect(sent).toHaveLength(21)
  })

  test('has a response up to a limit', async () => {
    const { send } = openRequests(({ pathname }) => new Response('x'.repeat(Number(pathname.slice(1)))), {
      maxHttpResponseBytes: 10,
    })
    expect(await send({ url: 'https://a.example/10' })).toHaveLength(10)
    await expect(send({ url: 'https://a.example/11' })).rejects.toThrow('exceeded 10 bytes')
  })

  test('that is none is not sent', async () => {
    const { call, sent, context } = openRequests(() => new Response(''))
    expect(await call('http_request', context.store('null'), 0n)).toBe(0n)
    expect(sent).toEqual([])
  })
})
