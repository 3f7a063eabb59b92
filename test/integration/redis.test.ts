import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import * as redis from '@redis/client'
import { expect, onTestFinished, test } from 'vitest'
import { openRedisStore } from '../../src/guest/store/redis.ts'
import { RedisConnection } from '../../src/guest/store/redis-connection.ts'

type Answer = string | ((words: readonly string[]) => string)

/** A server that answers commands as Redis does, by their first words: `+OK` if nothing else is given. */
async function listening(answers: Readonly<Record<string, Answer>> = {}, port = 0) {
  const sockets = new Set<Socket>()
  const asked: string[] = []
  const server = createServer((socket) => {
    sockets.add(socket)
    let rest = ''
    socket.setEncoding('latin1').on('data', (text) => {
      rest += text
      for (;;) {
        const command = /^\*(\d+)\r\n/.exec(rest)
        const words = [...rest.matchAll(/\$\d+\r\n([^\r]*)\r\n/g)].slice(0, Number(command?.[1]))
        if (!command || words.length < Number(command[1])) return
        const last = words.at(-1)
        rest = rest.slice((last?.index ?? 0) + (last?.[0].length ?? 0))
        const [name = '', ...more] = words.map(([, word = '']) => word)
        asked.push(name)
        const found = answers[name] ?? '+OK'
        const answer = typeof found === 'string' ? found : found(more)
        if (answer !== '') socket.write(`${answer}\r\n`)
      }
    })
    socket.on('error', () => undefined)
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  const stop = async () => {
    if (!server.listening) return
    server.close()
    for (const socket of sockets) socket.destroy()
    await once(server, 'close')
  }
  onTestFinished(stop)
  return { asked, stop, port: (server.address() as AddressInfo).port }
}

function connect(port: number, timeoutMs = 5_000) {
  const said: string[] = []
  let heard: () => void = () => undefined
  const say = (level: string) => (fields: unknown) => {
    said.push(`${level} ${JSON.stringify(fields)}`)
    heard()
  }
  const connection = new RedisConnection(redis, {
    url: `redis://bob:s3cret@127.0.0.1:${port}`,
    name: 'redis://127.0.0.1',
    timeoutMs,
    log: { warn: say('warn'), info: say('info') },
  })
  onTestFinished(() => connection.close())
  return {
    connection,
    said,
    async heard(count: number) {
      while (said.length < count) await new Promise<void>((resolve) => (heard = resolve))
    },
  }
}

const UNAVAILABLE = { code: 'WASM_SERVE_STORE_UNAVAILABLE' }

test('the loss of the connection is told once, and so is its return', async () => {
  const first = await listening({ GET: '$1\r\na' })
  const { connection, said, heard } = connect(first.port)
  await connection.ready()
  expect(String(await connection.run(['GET', 'key']))).toBe('a')
  expect(said).toEqual([])
  await first.stop()
  await heard(1)
  for (let number = 0; number < 3; number++)
    await expect(connection.run(['GET', 'key'])).rejects.toMatchObject(UNAVAILABLE)
  await listening({ GET: '$1\r\nb' }, first.port)
  await heard(2)
  expect(String(await connection.run(['GET', 'key']))).toBe('b')
  expect(said).toEqual([
    expect.stringMatching(/^warn \{"store":"redis:\/\/127\.0\.0\.1","reason":".+"\}$/),
    'info {"store":"redis://127.0.0.1"}',
  ])
})

test('a login that is refused fails at once, with advice and without the password', async () => {
  const { port } = await listening({ AUTH: '-WRONGPASS invalid username-password pair' })
  const { connection } = connect(port)
  const error: Error & { code?: string } = await connection.ready().then(
    () => new Error('it did not fail'),
    (error) => error,
  )
  expect(error).toMatchObject({ ...UNAVAILABLE, message: expect.stringContaining('check the user') })
  expect(error.message).not.toContain('s3cret')
})

test('a server that wants another password answers commands with it', async () => {
  const { port } = await listening({ PING: '-NOAUTH Authentication required.' })
  await expect(connect(port).connection.ready()).rejects.toMatchObject(UNAVAILABLE)
})

test('a command whose answer does not come fails in time, and a new connection is opened', async () => {
  const { port, asked } = await listening({ GET: '' })
  const { connection, said } = connect(port, 50)
  await connection.ready()
  const logins = () => asked.filter((name) => name === 'AUTH').length
  expect(logins()).toBe(1)
  await expect(connection.run(['GET', 'key'])).rejects.toMatchObject({
    ...UNAVAILABLE,
    message: expect.stringContaining('it does not respond'),
  })
  expect(said).toHaveLength(1)
  await connection.ready()
  expect(logins()).toBe(2)
})

test('an error of the server is its answer; one that it is a replica opens a new connection', async () => {
  const { port, asked } = await listening({ INCR: '-ERR value is not an integer', SET: '-READONLY replica' })
  const { connection } = connect(port)
  await connection.ready()
  const logins = () => asked.filter((name) => name === 'AUTH').length
  await expect(connection.run(['INCR', 'key'])).rejects.toThrow('ERR value is not an integer')
  expect(logins()).toBe(1)
  await expect(connection.run(['SET', 'key', 'a'])).rejects.toThrow('READONLY')
  await connection.ready()
  expect(logins()).toBe(2)
})

test('a connection that is closed runs nothing more', async () => {
  const { port } = await listening()
  const { connection, said } = connect(port)
  await connection.ready()
  await connection.close()
  await connection.close()
  await expect(connection.run(['GET', 'key'])).rejects.toMatchObject(UNAVAILABLE)
  expect(said).toEqual([])
})

/** An answer with these texts, or lists of them. */
function list(...items: readonly (string | readonly string[])[]): string {
  const rendered = items.map((item) =>
    typeof item === 'string' ? `$${Buffer.byteLength(item)}\r\n${item}` : list(...item),
  )
  return [`*${items.length}`, ...rendered].join('\r\n')
}

test('the entries of a store are those of its index, and what else is there is a fault', async () => {
  const types: Readonly<Record<string, string>> = {
    'wasm-serve:{a}:index': 'zset',
    'wasm-serve:{a}:key:one': 'string',
    'wasm-serve:{a}:key:lost': 'string',
    'wasm-serve:{a}:key:gone': 'none',
    'wasm-serve:{a}:key:list': 'list',
    'wasm-serve:{b}:index': 'string',
    'wasm-serve:other': 'string',
  }
  const { port } = await listening({
    SCAN: ([cursor]) =>
      cursor === '0' ? list('7', Object.keys(types).slice(0, 3)) : list('0', Object.keys(types).slice(3)),
    TYPE: ([key = '']) => `+${types[key]}`,
    ZSCORE: ([index, key]) => (index === 'wasm-serve:{a}:index' && key === 'one' ? '$1\r\n0' : '$-1'),
    EVAL: () => list('', ['one']),
    GET: ([key = '']) => `$5\r\n${key.endsWith('one') ? 'first' : 'other'}`,
    PTTL: () => ':-1',
  })
  const store = await openRedisStore({ url: new URL(`redis://127.0.0.1:${port}`), timeoutMs: 5_000 })
  onTestFinished(() => store.close())
  const found: unknown[] = []
  for await (const entry of store.entries())
    found.push('fault' in entry ? entry.fault : { ...entry, value: String(Buffer.from(entry.value)) })
  expect(found).toEqual([
    '"wasm-serve:{a}:key:lost" is missing from the index: write it again',
    { namespace: 'a', key: 'lost', value: 'other' },
    '"wasm-serve:{a}:key:list" has the Redis type list',
    '"wasm-serve:{b}:index" has the Redis type string',
    '"wasm-serve:other" has no namespace',
    { namespace: 'a', key: 'one', value: 'first' },
  ])
})

test('an entry ends when its server says', async () => {
  const { port } = await listening({
    SCAN: () => list('0', ['wasm-serve:{a}:index']),
    TYPE: ([key = '']) => (key.endsWith(':index') ? '+zset' : '+string'),
    EVAL: () => list('', ['one']),
    GET: () => '$5\r\nfirst',
    PTTL: () => ':60000',
  })
  const store = await openRedisStore({ url: new URL(`redis://127.0.0.1:${port}`), timeoutMs: 5_000 })
  onTestFinished(() => store.close())
  const before = Date.now()
  for await (const entry of store.entries()) {
    const endsAt = 'expiresAt' in entry ? (entry.expiresAt ?? 0) : 0
    expect([endsAt >= before + 60_000, endsAt <= Date.now() + 60_000]).toEqual([true, true])
  }
  expect.assertions(1)
})

test('what was in a store is removed when others replace it', async () => {
  const keys = ['wasm-serve:{a}:index', 'wasm-serve:{a}:key:one']
  const removed: string[] = []
  const { port } = await listening({
    SCAN: () => list('0', keys),
    UNLINK: (words) => {
      removed.push(...words)
      return ':1'
    },
  })
  const store = await openRedisStore({ url: new URL(`redis://127.0.0.1:${port}`), timeoutMs: 5_000 })
  onTestFinished(() => store.close())
  expect(await store.restore([], true)).toBe(0)
  expect(removed).toEqual(keys)
})

test('a server at its memory limit is a full store, and other errors are a store that fails', async () => {
  const { port } = await listening({ EVAL: '-OOM command not allowed', GET: '-ERR no' })
  const store = await openRedisStore({ url: new URL(`redis://127.0.0.1:${port}`), timeoutMs: 5_000 })
  onTestFinished(() => store.close())
  await expect(store.set('a', 'key', Buffer.from('v'))).rejects.toMatchObject({
    code: 'WASM_SERVE_STORE_FULL',
  })
  await expect(store.get('a', 'key')).rejects.toMatchObject(UNAVAILABLE)
})
