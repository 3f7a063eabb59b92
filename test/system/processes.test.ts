import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { request as requestPlain } from 'node:http'
import { connect, constants } from 'node:http2'
import { request } from 'node:https'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../support/admin-api.ts'
import { selfSigned } from '../support/certificate.ts'
import { run, start } from '../support/cli-process.ts'
import { file, guest } from '../support/guest.ts'
import { kvGuest } from '../support/kv-guest.ts'
import { type Load, startLoad } from '../support/load.ts'
import { startProcesses, until } from '../support/processes.ts'
import { open, post } from '../support/socket.ts'

function loading(url: string, connections = 40): Load {
  const load = startLoad({ url, connections })
  onTestFinished(async () => void (await load.stop()))
  return load
}

/** Sends a request without the rest of its body. */
async function beginRequest(url: string): Promise<void> {
  const headers = { expect: '100-continue', 'content-length': 10 }
  const sent = requestPlain(url, { method: 'POST', agent: false, headers })
  onTestFinished(() => void sent.destroy())
  sent.on('error', () => undefined)
  sent.flushHeaders()
  await once(sent, 'continue')
  sent.write('x')
}

const LOSSLESS = { wrong: 0, non2xx: 0, resets: 0, refused: 0 }

test('several processes serve behind one port, and none of them is the primary', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '3'])
  const load = loading(server.url)
  await load.answered(3_000)
  expect(await load.stop()).toMatchObject(LOSSLESS)
  expect(server.pids()).toHaveLength(3)
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0, signal: null })
})

test('SIGTERM drains all processes without losing a request, and each line names its process', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '2'])
  const load = loading(server.url)
  await load.answered(1_000)
  server.kill('SIGTERM')
  const counts = await load.ended
  expect(await server.ended).toMatchObject({ code: 0, signal: null })
  expect(counts).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 40 })
  const processes = server.lines('closed').map(({ process }) => process)
  expect(processes.sort()).toEqual([1, 2, undefined])
  expect(processes).toHaveLength(3)
})

test('a signal to the whole group, such as Ctrl-C, ends the server once', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '2'])
  for (const pid of server.pids()) process.kill(pid, 'SIGINT')
  for (const pid of server.pids()) process.kill(pid, 'SIGTERM')
  const load = loading(server.url)
  await load.answered(100)
  expect(await load.stop()).toMatchObject(LOSSLESS)
  server.kill('SIGINT')
  expect(await server.ended).toMatchObject({ code: 0, signal: null })
})

test('serving processes do not outlive their primary', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '2', '--drain-ms', '0'])
  const pids = server.pids()
  server.kill('SIGKILL')
  await until(() => pids.every((pid) => !isRunning(pid)))
})

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('processes that are killed under load cost their own connections only, and are replaced', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '3'])
  const load = loading(server.url, 60)
  for (let round = 1; round <= 5; round++) {
    await load.answered(1_000)
    const [pid = 0] = server.pids()
    const before = load.counts.resets
    process.kill(pid, 'SIGKILL')
    await until(() => server.lines('a serving process was started').length === round)
    expect(load.counts.resets - before).toBeLessThan(60) // the others stay
  }
  await load.answered(1_000)
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, refused: 0 })
  expect(server.lines('a serving process was lost')).toHaveLength(5)
})

test('while no process runs the port does not refuse: connections wait', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '2'])
  const load = loading(server.url)
  await load.answered(500)
  for (const pid of server.pids()) process.kill(pid, 'SIGKILL')
  await until(() => server.lines('a serving process was lost').length === 2)
  await load.answered(500)
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, refused: 0 })
})

test.runIf(process.platform === 'linux')(
  'a process without a descriptor for a connection costs none, and gets others when it has one',
  async () => {
    const { url, pids } = await startProcesses([guest('echo'), '--processes', '2'])
    const [first = 0] = pids()
    const used = () => readdirSync(`/proc/${first}/fd`).length
    const before = used()
    const limit = (files: number) => execFileSync('prlimit', ['--pid', `${first}`, `--nofile=${files}:`])
    limit(before) // there may be gaps below
    const connected = async () => {
      const client = await open(Number(new URL(url).port))
      client.send(post('abc'))
      expect(String((await client.answer())?.body)).toBe('abc')
      return client.socket
    }
    for (let each = 0; each < 6; each++) await connected()
    const short = used()
    limit(1_024)
    for (let isUsed = false; !isUsed; ) {
      const socket = await connected()
      isUsed = used() > short // it has fewer connections than the other
      socket.destroy()
    }
  },
)

test('a guest that holds its event loop costs the requests of its process', async () => {
  const routes = [
    { url: '/', plugin: guest('echo') },
    { url: '/loop', plugin: guest('loop') },
  ]
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify({ routes }))
  const server = await startProcesses(['--processes', '3', '--stall-ms', '300'], {}, cwd)
  const load = loading(server.url, 30)
  await load.answered(500)
  for (let round = 1; round <= 3; round++) {
    const client = await open(Number(new URL(server.url).port))
    client.send(post('x', '', '/loop'))
    await until(() => server.lines('a serving process was started').length === round)
  }
  await load.answered(500)
  const counts = await load.stop()
  expect(counts).toMatchObject({ wrong: 0, non2xx: 0, refused: 0 })
  expect(counts.resets).toBeLessThanOrEqual(3 * 20)
  expect(server.lines('a serving process was lost').map(({ end }) => end)).toEqual(Array(3).fill('SIGKILL'))
})

test('a rolling restart replaces all processes without losing a request', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '3'])
  const load = loading(server.url)
  await load.answered(500)
  const before = server.pids()
  server.kill('SIGUSR2')
  await until(() => server.lines('all serving processes were replaced').length === 1)
  await load.answered(500)
  expect(await load.stop()).toMatchObject(LOSSLESS)
  expect(server.pids().filter((pid) => before.includes(pid))).toEqual([])
  expect(server.pids()).toHaveLength(3)
})

test('a process that is killed while it drains is in the log', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '2', '--drain-ms', '60000'])
  const [first] = server.pids()
  // Both processes have requests that do not end, so they drain until they are killed.
  await Promise.all(Array.from({ length: 20 }, () => beginRequest(server.url)))
  server.kill('SIGUSR2')
  const draining = () => server.lines('closing').find(({ reason }) => reason === 'drain')
  await until(() => server.lines('a serving process was replaced').length > 0 && draining() !== undefined)
  expect(draining()?.process).toBe(1)
  process.kill(first ?? 0, 'SIGKILL')
  await until(() => server.lines('a serving process was lost while it drained').length > 0)
  const [line] = server.lines('a serving process was lost while it drained')
  expect(line).toMatchObject({ level: 'error', process: 1, pid: first, end: 'SIGKILL' })
  expect(server.lines('a serving process was lost')).toEqual([])
})

test('a rolling restart applies options that a reload cannot change', async () => {
  const cwd = temporaryFolder()
  const write = (options: object) =>
    writeFileSync(
      join(cwd, 'wasm-serve.json'),
      JSON.stringify({ routes: [{ url: '/', plugin: guest('echo') }], ...options }),
    )
  write({ headersTimeoutMs: 60_000 })
  const server = await startProcesses(['--processes', '2', '--grace-ms', '300'], {}, cwd)
  const silent = async () => {
    const client = await open(Number(new URL(server.url).port))
    client.send('POST / HTTP/1.1\r\n')
    return client
  }
  write({ headersTimeoutMs: 100 })
  server.kill('SIGHUP')
  await until(() => server.lines('changed').length === 1)
  process.kill(server.pids()[0] ?? 0, 'SIGKILL') // its replacement has the options of the others
  await until(() => server.lines('a serving process was started').length === 1)
  const patient = await Promise.all([silent(), silent()])
  server.kill('SIGUSR2')
  await until(() => server.lines('all serving processes were replaced').length === 1)
  const client = await silent()
  expect(await client.answer()).toMatchObject({ status: 408 })
  for (const each of patient) expect(await each.answer()).toBeUndefined()
})

describe('it does not start', () => {
  test('with a guest that keeps data in memory', async () => {
    const cwd = temporaryFolder()
    const routes = [{ url: '/', plugin: guest('echo'), vars: 'shared' }]
    writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify({ routes, processes: 2 }))
    const { code, stderr } = await run(['--port', '0'], {}, { cwd })
    expect([code, stderr]).toEqual([2, expect.stringContaining('WASM_SERVE_PROCESSES_NOT_SHARED')])
    expect(stderr).toContain('redis:')
    expect((await run(['check'], {}, { cwd })).code).not.toBe(0)
  })

  test('with a guest that uses the store memory:', async () => {
    const { code, stderr } = await run([file('kv.wasm', kvGuest('get')), '--processes', '2', '--port', '0'])
    expect([code, stderr]).toEqual([2, expect.stringContaining('WASM_SERVE_PROCESSES_NOT_SHARED')])
  })

  test('with a plug-in that cannot start, and says why', async () => {
    const { code, stderr } = await run([guest('bad-start'), '--processes', '2', '--port', '0'])
    expect([code, stderr]).toEqual([1, expect.stringContaining('WASM_SERVE_INSTANCE_START_FAILED')])
  })

  test('on a port that is in use', async () => {
    const { port } = new URL(await start([guest('echo'), '0']).listening())
    const { code, stderr } = await run([guest('echo'), port, '--processes', '2'])
    expect([code, stderr]).toEqual([1, expect.stringContaining('WASM_SERVE_LISTEN_FAILED')])
  })
})

test('a rate limit counts the requests of a client at all processes', async () => {
  const cwd = temporaryFolder()
  const rateLimit = { max: 20, timeWindowMs: 600_000 }
  const options = { routes: [{ url: '/', plugin: guest('echo') }], rateLimit }
  writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify(options))
  const server = await startProcesses(['--processes', '3'], {}, cwd)
  const clients = await Promise.all(Array.from({ length: 6 }, () => open(Number(new URL(server.url).port))))
  const statuses: (number | undefined)[] = []
  for (let round = 0; round < 5; round++) {
    for (const client of clients) {
      client.send(post('abc'))
      statuses.push((await client.answer())?.status)
    }
  }
  expect(statuses).toEqual([...Array(20).fill(200), ...Array(10).fill(429)])
})

test('a rate limit of tools counts the messages of a client at all processes', async () => {
  const cwd = temporaryFolder()
  const mcp = { hosts: ['a'], rateLimit: { max: 5, timeWindowMs: 600_000 } }
  const options = { mcp, routes: [{ url: '/', plugin: guest('echo') }] }
  writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify(options))
  const server = await startProcesses(['--processes', '3'], {}, cwd)
  const clients = await Promise.all(Array.from({ length: 6 }, () => open(Number(new URL(server.url).port))))
  const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })
  const statuses: (number | undefined)[] = []
  for (const client of clients) {
    client.send(post(ping, 'Content-Type: application/json\r\n', '/mcp'))
    statuses.push((await client.answer())?.status)
  }
  expect(statuses).toEqual([...Array(5).fill(200), 429])
})

test('processes share a Unix socket', async () => {
  const cwd = temporaryFolder()
  const server = start([guest('echo'), '--socket', 'a.sock', '--processes', '2'], {}, { cwd })
  await server.listening()
  const load = startLoad({ url: 'http://localhost/', socketPath: join(cwd, 'a.sock'), connections: 10 })
  await load.answered(300)
  expect(await load.stop()).toMatchObject(LOSSLESS)
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0 })
})

test('a process that uses too much memory is replaced by one that starts first', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '2', '--process-memory-max', '1MiB'])
  const load = loading(server.url, 10)
  await until(() => server.lines('a serving process was replaced').length >= 2)
  expect(await load.stop()).toMatchObject(LOSSLESS)
  expect(server.lines('a serving process was lost')).toEqual([])
})

test('if no process can be started any more, the server ends with 75', async () => {
  const cwd = temporaryFolder()
  const functions = join(cwd, 'functions.mjs')
  writeFileSync(functions, 'export default {}')
  const server = await startProcesses([guest('echo'), '--processes', '2', '--functions', functions])
  writeFileSync(functions, 'process.exit(1)')
  for (const pid of server.pids()) process.kill(pid, 'SIGKILL')
  expect(await server.ended).toMatchObject({ code: 75 })
  expect(server.stderr()).toContain('WASM_SERVE_PROCESSES_FAILING')
})

test('processes speak TLS and HTTP/2', async () => {
  const { key, cert } = selfSigned('localhost')
  const flags = [
    '--tls-cert',
    file('cert.pem', Buffer.from(cert)),
    '--tls-key',
    file('key.pem', Buffer.from(key)),
  ]
  const server = await startProcesses([guest('echo'), '--processes', '2', '--http2', ...flags])
  const { port } = new URL(server.url)
  for (let round = 0; round < 4; round++) {
    const asking = request({
      port,
      host: '127.0.0.1',
      servername: 'localhost',
      ca: cert,
      method: 'POST',
      agent: false,
    })
    asking.end(`abc ${round}`)
    const [answer] = await once(asking, 'response')
    expect(String((await answer.toArray())[0])).toBe(`abc ${round}`)

    const session = connect(`https://127.0.0.1:${port}`, { servername: 'localhost', ca: cert })
    const stream = session.request({ [constants.HTTP2_HEADER_METHOD]: 'POST' })
    stream.end(`xyz ${round}`)
    expect(Buffer.concat(await stream.toArray()).toString()).toBe(`xyz ${round}`)
    session.close()
  }
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0 })
})

test('processes that are killed during a rolling restart are replaced, each by one', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '3', '--drain-ms', '50'])
  const load = loading(server.url)
  await load.answered(200)
  server.kill('SIGUSR2')
  for (const pid of server.pids()) {
    await load.answered(50)
    if (isRunning(pid)) process.kill(pid, 'SIGKILL')
  }
  const ends = ['all serving processes were replaced', 'the serving processes were not restarted']
  await until(() => ends.flatMap((end) => server.lines(end)).length === 1)
  await until(() => server.pids().length === 3)
  await load.answered(200)
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, refused: 0 })
  expect(server.pids()).toHaveLength(3)
})

test('lines of several processes on one pipe are whole', async () => {
  const server = await startProcesses([guest('echo'), '--processes', '3', '--access-log'])
  const load = loading(server.url, 100)
  await load.answered(10_000)
  const { answers } = await load.stop()
  server.kill('SIGTERM')
  const { stderr } = await server.ended
  const lines = stderr
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines.filter(({ status }) => status === 200)).toHaveLength(answers)
})

test('guests of all processes share a store of the machine', async () => {
  const cwd = temporaryFolder()
  const plugin = file('kv.wasm', kvGuest('get', 'set'))
  const routes = ['get', 'set'].map((name) => ({ url: `/${name}`, function: name, plugin }))
  writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify({ routes, store: `lmdb:${join(cwd, 'data')}` }))
  const server = await startProcesses(['--processes', '3'], {}, cwd)
  const port = Number(new URL(server.url).port)
  const clients = await Promise.all(Array.from({ length: 3 }, () => open(port))) // one for each process
  for (const [index, writer] of clients.entries()) {
    writer.send(post(`key-0000value ${index}`, '', '/set'))
    expect((await writer.answer())?.status).toBe(200)
    for (const reader of clients) {
      reader.send(post('key-0000', '', '/get'))
      expect(String((await reader.answer())?.body)).toBe(`value ${index}`)
    }
  }
})
