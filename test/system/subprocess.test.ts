import { spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import Fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { GuestProcesses } from '../../src/engine/subprocess/process-group.ts'
import { openSandbox, type ProcessNeeds } from '../../src/engine/subprocess/sandbox.ts'
import type { RouteOptions, ServerOptions } from '../../src/options/options.ts'
import { wasmServe } from '../../src/route/wasm-serve.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { CHAOS_FUNCTIONS, SAME_USER } from '../support/chaos.ts'
import { start } from '../support/cli-process.ts'
import { takeDescriptors } from '../support/descriptors.ts'
import { callText, openEngine } from '../support/engine.ts'
import { ask } from '../support/faults.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { keepLog } from '../support/instance.ts'
import { listenAll } from '../support/serve.ts'
import { startServerProcess } from '../support/serve-process.ts'

const isLinux = process.platform === 'linux'
const isRoot = process.getuid?.() === 0

/** A module of `lib`, for a process of its own. */
const lib = (path: string) => new URL(`../../lib/${path}`, import.meta.url).href

const AS_THEY_ARE = { subprocessUser: SAME_USER }

/** Routes with processes of their own. */
async function serveAll(routes: RouteOptions[], server: Partial<ServerOptions> = {}) {
  const running = await listenAll(
    routes.map((route) => ({ engine: 'subprocess' as const, spareWorkers: 0, ...route })),
    { ...AS_THEY_ARE, ...server },
  )
  onTestFinished(() => running.drain())
  return running
}

/** The processes of guests that a process has started. */
function guestProcesses(parent = process.pid): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
        const [state, ppid] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        const words = readFileSync(`/proc/${pid}/cmdline`, 'latin1')
        return state !== 'Z' && Number(ppid) === parent && words.includes('--input-type=commonjs')
      } catch {
        return false // it has ended meanwhile
      }
    })
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5))
}

const status = (pid: number) =>
  Object.fromEntries(
    readFileSync(`/proc/${pid}/status`, 'latin1')
      .split('\n')
      .map((line) => line.split(':\t') as [string, string]),
  )

test('of calls behind one that never returns each is answered, in another process', async () => {
  const { url } = await serveAll([{ plugin: guest('moody'), timeoutMs: 300 }])
  const [first, ...others] = await Promise.all(
    ['L', ...Array.from({ length: 30 }, (_, i) => `well ${i}`)].map((body) => ask(url, body)),
  )
  expect(first).toMatchObject({ status: 504, code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
  expect(others.map(({ status, body }) => [status, body])).toEqual(
    Array.from({ length: 30 }, (_, i) => [200, `well ${i}`]),
  )
})

test.each(['H die', 'H eat'])('a process that ends by itself (%s) costs the call that ran', async (begin) => {
  const zoo = { plugin: guest('zoo'), functions: CHAOS_FUNCTIONS, timeoutMs: 20_000, memoryMax: 64 }
  const { url } = await serveAll([{ url: '/', ...zoo }])
  expect(await ask(url, 'x1')).toMatchObject({ status: 200 })
  const [first, ...others] = await Promise.all([`${begin} `, 'x2', 'x3', 'x4'].map((body) => ask(url, body)))
  expect(first).toMatchObject({ status: 500, code: 'WASM_SERVE_WORKER_LOST' })
  expect(others.map(({ body }) => body)).toEqual(['x2', 'x3', 'x4'])
})

test.each([
  false,
  true,
])('a call is run twice only where the route says that it may be: %s', async (idempotent) => {
  const options = { functions: CHAOS_FUNCTIONS, idempotent, timeoutMs: 20_000, spareWorkers: 0 }
  const engine = await openEngine({ name: 'subprocess', runtime: kernel }, 'zoo', options)
  await expect(callText(engine, 'run', 'H die ')).rejects.toMatchObject({ code: 'WASM_SERVE_WORKER_LOST' })
  expect(await callText(engine, 'run', 'x')).toBe('x')
  expect(engine.stats.restarted).toBe(idempotent ? 2 : 1)
})

/** Whether it has computed for longer than a start and a short call take since it was last asked. */
function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return state === 'R' && Number(rest[10]) > 60 // hundredths of a second
  } catch {
    return false
  }
}

test('large inputs and outputs are carried, several at a time', async () => {
  const { url } = await serveAll([{ plugin: guest('echo'), bodyLimit: 9_000_000, outputLimit: 9_000_000 }])
  const bodies = Array.from({ length: 4 }, (_, i) => String(i).repeat(8_388_608))
  const answers = await Promise.all(bodies.map((body) => ask(url, body)))
  expect(answers.map(({ body }, i) => body === bodies[i])).toEqual([true, true, true, true])
})

test.each([
  'on',
  'off',
] as const)('routes of a name share processes; a guest that does not return costs its call, and without checks the process: %s', async (interrupts) => {
  const { url } = await serveAll([
    { url: '/echo', plugin: guest('echo'), process: 'shared' },
    { url: '/upper', plugin: guest('upper'), process: 'shared' },
    { url: '/moody', plugin: guest('moody'), process: 'shared', timeoutMs: 200, interrupts },
  ])
  const before = guestProcesses()
  expect(before).toHaveLength(1)
  const calls = Array.from({ length: 40 }, (_, i) => ask(url + ['/echo', '/upper'][i % 2], `text ${i}`))
  const late = await ask(`${url}/moody`, 'L')
  expect(late).toMatchObject({ status: 504, code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
  expect((await Promise.all(calls)).map(({ body }) => body)).toEqual(
    Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? `text ${i}` : `TEXT ${i}`)),
  )
  expect(await ask(`${url}/echo`, 'again')).toMatchObject({ status: 200, body: 'again' })
  expect(await ask(`${url}/moody`, 'again')).toMatchObject({ status: 200, body: 'again' })
  expect(guestProcesses()).toHaveLength(1)
  if (interrupts === 'on') expect(guestProcesses()).toEqual(before)
  else expect(guestProcesses()).not.toEqual(before)
})

test.each([
  'reuse',
  'fresh',
] as const)('a hundred deadlines in a row cost no process (%s)', async (isolation) => {
  const { url } = await serveAll([{ plugin: guest('moody'), timeoutMs: 20, isolation }])
  const processes = new Set<number>()
  for (let round = 0; round < 100; round++) {
    const answers = await Promise.all([ask(url, 'L'), ask(url, `well ${round}`)])
    expect(answers).toMatchObject([{ status: 504 }, { status: 200, body: `well ${round}` }])
    for (const pid of guestProcesses()) processes.add(pid)
  }
  expect(processes.size).toBeLessThan(10) // a busy machine may take more than 100 ms to let a guest look
})

test('a guest that has used up its budget costs no process', async () => {
  const { url } = await serveAll([{ plugin: guest('moody'), timeoutMs: 20_000, budget: 1_000 }])
  const before = guestProcesses()
  for (let round = 0; round < 3; round++) {
    expect(await ask(url, 'L')).toMatchObject({ status: 504, code: 'WASM_SERVE_BUDGET_EXCEEDED' })
    expect(await ask(url, `well ${round}`)).toMatchObject({ status: 200, body: `well ${round}` })
  }
  expect(guestProcesses()).toEqual(before)
})

test('a client that leaves ends its guest, and not the process', async () => {
  const route = { plugin: guest('moody'), timeoutMs: 60_000, cancelOnDisconnect: true }
  const { url } = await serveAll([route])
  const before = guestProcesses()
  const leaving = request(url, { method: 'POST', agent: false }).end('L')
  await until(() => before.some(isRunning))
  leaving.on('error', () => undefined).destroy()
  expect(await ask(url, 'again')).toMatchObject({ status: 200, body: 'again' })
  expect(guestProcesses()).toEqual(before)
})

/** What a process was started with. */
const command = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'latin1')

/** Maximum bytes of its data, from its limits. */
const dataLimit = (pid: number) =>
  Number(/Max data size\s+(\d+)/.exec(readFileSync(`/proc/${pid}/limits`, 'latin1'))?.[1])

test.runIf(isLinux)(
  'processes of a name end, each when it is idle, once they may do more than the routes that are left',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'given-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const shared = { engine: 'subprocess' as const, spareWorkers: 0, process: 'shared', timeoutMs: 60_000 }
    const reader = { ...shared, url: '/reader', plugin: guest('echo') }
    const moody = { ...shared, url: '/moody', plugin: guest('moody') }
    const given = { ...reader, allowedPaths: { [folder]: '/data' } }
    const { url, child, change } = await startServerProcess({ routes: [given, moody], ...AS_THEY_ARE })
    const processes = () => guestProcesses(child.pid)
    const haveFolder = () => processes().filter((pid) => command(pid).includes(folder))
    expect(processes()).toHaveLength(1)
    expect(haveFolder()).toEqual(processes())

    // It works on for the call that it has.
    const slow = ask(`${url}/moody`, 'W')
    await change({ routes: [reader, moody] })
    expect(await ask(`${url}/reader`, 'hi')).toMatchObject({ status: 200, body: 'hi' })
    expect(await slow).toMatchObject({ status: 200 })
    await until(() => haveFolder().length === 0)
    const limits = new Set<number>()
    for (let round = 0; round < 4; round++) {
      await change({ routes: [{ ...reader, config: { round: String(round) } }, moody] })
      const answers = await Promise.all(['/reader', '/moody'].map((path) => ask(url + path, 'hi')))
      expect(answers).toMatchObject([{ status: 200 }, { status: 200 }])
      await until(() => processes().length === 1)
      for (const pid of processes()) limits.add(dataLimit(pid))
    }
    expect(Math.max(...limits)).toBeLessThanOrEqual(2 * Math.min(...limits)) // of two routes, or of the one that came first
  },
)

test('a module that is not valid is told as such, and never compiled here', async () => {
  const compiled = WebAssembly.compile
  onTestFinished(() => {
    WebAssembly.compile = compiled
  })
  WebAssembly.compile = () => Promise.reject(new Error('compiled here'))
  const invalid = file('invalid.wasm', Buffer.concat([guestBytes('echo'), Buffer.of(10, 1, 0)]))
  await expect(serveAll([{ plugin: invalid }])).rejects.toMatchObject({ code: 'WASM_SERVE_PLUGIN_INVALID' })
  const { url } = await serveAll([{ plugin: guest('echo') }])
  expect(await ask(url, 'hi')).toMatchObject({ status: 200, body: 'hi' })
})

test('no process is left when the server has closed', async () => {
  const { url, drain } = await serveAll([
    { url: '/a', plugin: guest('echo'), workers: 2, spareWorkers: 1 },
    { url: '/b', plugin: guest('echo'), process: 'shared' },
    { url: '/c', plugin: guest('echo'), process: 'shared' },
  ])
  expect(await ask(`${url}/a`, 'hi')).toMatchObject({ status: 200 })
  expect(guestProcesses().length).toBeGreaterThan(2)
  await drain()
  expect(guestProcesses()).toEqual([])
})

test('as a Fastify plugin it serves from processes, too', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  await app.register(wasmServe, { routes: [{ plugin: guest('echo'), engine: 'subprocess' }], ...AS_THEY_ARE })
  const answer = await app.inject({ method: 'POST', url: '/', payload: 'hi' })
  expect([answer.statusCode, answer.body]).toEqual([200, 'hi'])
})

test.runIf(isLinux)('a process ends with a server that is killed, also while its guest runs', async () => {
  const server = start([guest('loop'), '0', '--engine', 'subprocess', '--timeout', '60000'])
  const url = await server.listening()
  void ask(url, '').catch(() => undefined)
  const pid = server.child.pid ?? 0
  await until(() => guestProcesses(pid).some(isRunning))
  const guests = guestProcesses(pid)
  server.kill('SIGKILL')
  await server.ended
  await until(() =>
    guests.every((each) => !existsSync(`/proc/${each}`) || status(each).State?.startsWith('Z')),
  )
})

test.runIf(isLinux)('SIGTERM lets the calls of processes end, and leaves no process', async () => {
  const server = start([
    guest('wasi-zoo'),
    '0',
    '--engine',
    'subprocess',
    '--timeout',
    '20000',
    '--grace-ms',
    '200',
  ])
  const url = await server.listening()
  const guests = guestProcesses(server.child.pid)
  const call = ask(url, 'poll').catch(() => undefined) // waits for half a minute
  server.kill('SIGTERM')
  expect((await server.ended).code).toBe(0)
  expect(guests.length).toBeGreaterThan(0)
  expect(guests.filter((pid) => existsSync(`/proc/${pid}`) && !status(pid).State?.startsWith('Z'))).toEqual(
    [],
  )
  await call
})

test.runIf(isLinux)(
  'a process has no network, no capabilities, no environment and no descriptors of the server',
  async () => {
    // What starts the server may have left a descriptor open for all that it starts.
    const secret = file('secret.txt', 'secret')
    const program = ['/bin/bash', '-c', `exec 90<${secret}; exec ${process.execPath} "$0" "$@"`] as const
    const server = start([guest('echo'), '0', '--engine', 'subprocess'], { SECRET: 'x' }, { program })
    await server.listening()
    const [pid = 0] = guestProcesses(server.child.pid)
    const { NoNewPrivs, CapEff, CapPrm, CapBnd, Uid } = status(pid)
    expect(NoNewPrivs).toBe('1')
    expect([CapEff, CapPrm]).toEqual(['0000000000000000', '0000000000000000'])
    if (isRoot) expect(CapBnd).toBe('0000000000000000')
    if (isRoot) expect(Uid?.split('\t')).toEqual(['65534', '65534', '65534', '65534'])
    expect(readlinkSync(`/proc/${pid}/ns/net`)).not.toBe(readlinkSync('/proc/self/ns/net'))
    expect(readlinkSync(`/proc/${pid}/cwd`)).toBe('/')
    expect(readFileSync(`/proc/${pid}/environ`, 'latin1')).toBe('')
    const links = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
    expect(links.filter((link) => !/^(?:socket:|pipe:|anon_inode:|\/dev\/null$)/.test(link))).toEqual([])
    const limits = readFileSync(`/proc/${pid}/limits`, 'latin1')
    expect(limits).toMatch(/Max core file size +0 /)
    expect(limits).toMatch(/Max file size +0 /)
    expect(limits).toMatch(/Max open files +256 /)
    expect(readFileSync(`/proc/${pid}/oom_score_adj`, 'latin1').trim()).toBe('1000')
    expect(server.stderr()).toContain('subprocess sandbox: permission model yes, network namespace yes')
  },
)

test.runIf(isLinux)(
  'host functions in a process reach no network, no file of the server and no other program',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'functions-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const functions = join(folder, 'functions.mjs')
    writeFileSync(
      functions,
      `import { readFileSync } from 'node:fs'
    import { spawnSync } from 'node:child_process'
    import { connect } from 'node:net'
    import { Worker } from 'node:worker_threads'
    const of = (run) => { try { run(); return 'done' } catch (error) { return error.code } }
    const relay = (context, at) => {
      const port = Number(context.read(at).text())
      connect(port, '127.0.0.1').on('error', (error) => { failure = error.code }).on('connect', () => { failure = 'connected' })
      return context.store(JSON.stringify([
        of(() => readFileSync('/etc/passwd')), of(() => spawnSync('/bin/true')),
        of(() => new Worker('1', { eval: true })), Object.keys(process.env).length, failure ?? null,
      ]))
    }
    let failure
    export default { env: { relay } }`,
    )
    const { url, port } = await serveAll([{ plugin: guest('relay'), functions }])
    const first = await ask(url, String(port))
    expect(JSON.parse(first.body).slice(0, 4)).toEqual([
      'ERR_ACCESS_DENIED',
      'ERR_ACCESS_DENIED',
      'ERR_ACCESS_DENIED',
      0,
    ])
    let failure: string | null = null
    while (failure === null) failure = JSON.parse((await ask(url, String(port))).body)[4]
    expect(['ENETUNREACH', 'ECONNREFUSED', 'ERR_ACCESS_DENIED']).toContain(failure) // nobody listens in its own network
  },
)

test.runIf(isLinux)('a guest reads its folders, and nothing else', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'data-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'data'))
  writeFileSync(join(folder, 'data', 'note.txt'), 'from the folder')
  const { url } = await serveAll([
    { plugin: guest('read-file'), allowedPaths: { [`ro:${join(folder, 'data')}`]: '/data' } },
  ])
  expect(await ask(url, 'note.txt')).toMatchObject({ status: 200, body: 'from the folder' })
})

/** Makes a file in its folder and writes to it. */
const WRITES = `(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "new.txt") (data (i32.const 16) "written") (data (i32.const 32) "\\10\\00\\00\\00\\07")
  (func (export "run") (result i32)
    (if (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 7) (i32.const 1) (i64.const 64) (i64.const 0)
      (i32.const 0) (i32.const 48)) (then (return (i32.const 1))))
    (call $write (i32.load (i32.const 48)) (i32.const 32) (i32.const 1) (i32.const 52))))`

test('a guest writes to its folders, where it may', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'data-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const route = { plugin: file('writes.wasm', guestBytes(WRITES)) }
  const { url } = await serveAll([
    { ...route, url: '/write', allowedPaths: { [folder]: '/data' } },
    { ...route, url: '/read', allowedPaths: { [`ro:${folder}`]: '/data' } },
  ])
  expect(await ask(`${url}/read`, '')).toMatchObject({ status: 409 })
  expect(await ask(`${url}/write`, '')).toMatchObject({ status: 200 })
  expect(readFileSync(join(folder, 'new.txt'), 'utf8')).toBe('written')
})

test('a start that does not return ends with its process', async () => {
  const opening = serveAll([{ plugin: guest('start-loop'), startTimeoutMs: 500 }])
  await expect(opening).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
  await until(() => guestProcesses().length === 0)
})

test.runIf(isLinux)(
  'calls behind one whose process cannot be terminated are answered by another process',
  async () => {
    const processes = new GuestProcesses({}, keepLog(), async () => {
      const sandbox = await openSandbox(undefined, [])
      // the sleep keeps the sockets open, so that the process does not seem to end
      const command = (needs: ProcessNeeds) =>
        ['sh', '-c', 'sleep 60 & exec "$@"', 'sh', ...sandbox.command(needs)] as const
      return { ...sandbox, command }
    })
    const engine = await openEngine({ name: 'subprocess', runtime: kernel }, 'moody', {
      processes,
      timeoutMs: 200,
    })
    await Promise.all(Array.from({ length: 200 }, () => callText(engine, 'answer', 'x')))
    const [late, behind] = ['L', 'well'].map((text) => callText(engine, 'answer', text))
    await expect(late).rejects.toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
    expect(await behind).toBe('well')
  },
  30_000, // less than the sleep
)

test('without any tool of the system it works, and a thread of the process watches for the end of the server', async () => {
  const log = keepLog()
  const processes = new GuestProcesses({}, log, () => openSandbox(undefined, []))
  const engine = await openEngine({ name: 'subprocess', runtime: kernel }, 'moody', {
    processes,
    spareWorkers: 0,
  })
  expect(await callText(engine, 'answer', 'well')).toBe('well')
  expect(log.lines[0]?.fields).toMatchObject({
    sandbox: {
      networkNamespace: false,
      noNewPrivileges: false,
      resourceLimits: false,
      endsWithServer: 'thread',
    },
  })
  await expect(callText(engine, 'answer', 'L')).rejects.toMatchObject({
    code: 'WASM_SERVE_DEADLINE_EXCEEDED',
  })
  expect(await callText(engine, 'answer', 'well')).toBe('well')
})

test.runIf(isLinux)(
  'without any tool a process ends with a server that is killed, also while its guest runs',
  async () => {
    const code = `
    import { readFileSync } from 'node:fs'
    import { GuestProcess } from ${JSON.stringify(lib('engine/subprocess/guest-process.js'))}
    import { openSandbox } from ${JSON.stringify(lib('engine/subprocess/sandbox.js'))}
    import { pack } from ${JSON.stringify(lib('engine/subprocess/packed.js'))}
    const needs = { heapMiB: 128, dataBytes: 4 * 2 ** 30, reads: [], writes: [] }
    const log = { error: console.error }
    const guests = new GuestProcess({ sandbox: () => openSandbox(undefined, []), cgroup: undefined, needs, log })
    const bytes = readFileSync(${JSON.stringify(guest('loop'))})
    const settings = { config: {}, outputLimit: 1e6, blockLimit: 1e6, varMax: 1e6 }
    const plugin = { name: 'loop', digest: '', modules: [{ name: 'main', label: 'loop', bytes, resettable: false }] }
    const isolation = { isolation: 'reuse', recycleMemory: Infinity }
    const head = { call: 1, nameBytes: 0, ms: 0 }
    const instance = guests.add({
      isBusy: true, maxFrameBytes: 1e6, free() {}, over(reason) { console.error(reason) }, gone() {},
      take({ kind, payload }) {
        if (kind !== 1) return kind === 2 && console.error(String(payload))
        guests.send({ ...head, kind: 2, instance, nameBytes: 4 }, [Buffer.from('loop')])
        guests.flush()
      },
    })
    guests.send({ ...head, kind: 1, instance }, [pack({ plugin, settings, isolation, services: [] })])
  `
    const server = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    await until(() => guestProcesses(server.pid).some(isRunning))
    const guests = guestProcesses(server.pid)
    server.kill('SIGKILL')
    await until(() =>
      guests.every((pid) => !existsSync(`/proc/${pid}`) || status(pid).State?.startsWith('Z')),
    )
  },
)

test.runIf(isLinux)('signals for all processes of a service end none of the guests', async () => {
  const { url } = await serveAll([{ plugin: guest('count'), function: 'count' }])
  expect(await ask(url, '')).toMatchObject({ body: '1' })
  for (const pid of guestProcesses())
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR2']) process.kill(pid, signal)
  expect(await ask(url, '')).toMatchObject({ body: '2' })
})

test('a process joins its cgroup before it sees a guest, or does not start', async () => {
  const cgroup = mkdtempSync(join(tmpdir(), 'cgroup-'))
  onTestFinished(() => rmSync(cgroup, { recursive: true }))
  await serveAll([{ plugin: guest('echo') }], { subprocessCgroup: cgroup })
  expect(readFileSync(join(cgroup, 'cgroup.procs'), 'utf8')).toBe(String(guestProcesses()[0]))
  await expect(
    serveAll([{ plugin: guest('echo') }], { subprocessCgroup: join(cgroup, 'missing') }),
  ).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
})

test.runIf(isLinux)(
  'a process that does not start for want of descriptors costs its calls only',
  async () => {
    const log = keepLog()
    const processes = new GuestProcesses({ user: SAME_USER }, log)
    const first = await openEngine({ name: 'subprocess', runtime: kernel }, 'echo', { processes })
    expect(await callText(first, 'echo', 'one')).toBe('one')
    const free = takeDescriptors(3) // a process needs more
    const second = await openEngine({ name: 'subprocess', runtime: kernel }, 'echo', {
      processes,
      backoffMs: 1,
    })
    await expect(callText(second, 'echo', 'two')).rejects.toThrow('too many open files')
    free()
    await expect.poll(() => callText(second, 'echo', 'three').catch(String)).toBe('three')
  },
)
