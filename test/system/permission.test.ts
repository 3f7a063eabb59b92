import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { type ProcessInputs, run, start } from '../support/cli-process.ts'
import { guest, moduleNumber } from '../support/guest.ts'

/*
 * The command under the permission model of Node.js, with no more than docs/protect/security.md says that it takes.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const MODEL =
  major > 23 || (major === 23 && minor >= 5) || (major === 22 && minor >= 13)
    ? '--permission'
    : '--experimental-permission'

const read = (path: string) => `--allow-fs-read=${path}`

/** What runs the command: reading its own files is always allowed. */
function permitted(...flags: string[]): ProcessInputs {
  const own = ['dist/*', 'node_modules/*', 'package.json'].map((path) => read(join(ROOT, path)))
  const net = major >= 25 ? ['--allow-net'] : []
  return { program: [process.execPath, MODEL, ...own, ...net, ...flags] }
}

function folder(): string {
  const path = mkdtempSync(join(realpathSync(tmpdir()), 'wasm-serve-permission-'))
  onTestFinished(() => rmSync(path, { recursive: true }))
  return path
}

async function post(url: string, body: string): Promise<[status: number, body: string]> {
  const answer = await fetch(url, { method: 'POST', body })
  return [answer.status, await answer.text()]
}

test('reading the plug-in is enough to serve it, without a watchdog', async () => {
  const echo = guest('echo')
  const url = await start([echo, '0', '--stall-ms', '0'], {}, permitted(read(echo))).listening()
  expect(await post(url, 'hi')).toEqual([200, 'hi'])
})

test('a thread that is wanted and not allowed is one line', async () => {
  const echo = guest('echo')
  const words = [echo, '0', '--stall-ms', '0', '--workers', '1']
  const { code, stderr } = await run(words, {}, permitted(read(echo)))
  expect(code).not.toBe(0)
  expect(stderr).toMatch(/^wasm-serve: Route POST .*\n$/m)
  expect(stderr).not.toMatch(/^ +at /m)
})

test('hundreds of plug-ins are read without threads where none are allowed', async () => {
  const plugins = folder()
  for (let i = 0; i < 300; i++) writeFileSync(join(plugins, `p${i}.wasm`), moduleNumber(i))
  const server = start([plugins, '--port', '0', '--stall-ms', '0'], {}, permitted(read(join(plugins, '*'))))
  const { status } = await fetch(await server.listening())
  expect(status).toBe(404)
})

test('with threads allowed there are the watchdog and deadlines', async () => {
  const loop = guest('loop')
  const server = start([loop, '0', '--timeout', '100'], {}, permitted(read(loop), '--allow-worker'))
  expect(await post(await server.listening(), '')).toEqual([
    504,
    expect.stringContaining('DEADLINE_EXCEEDED'),
  ])
  const watched = start([loop, '0', '--stall-ms', '300'], {}, permitted(read(loop), '--allow-worker'))
  await expect(post(await watched.listening(), '')).rejects.toThrow()
  expect((await watched.ended).signal).toBe('SIGKILL')
})

test('without threads allowed the command does not start, and says what it takes', async () => {
  const echo = guest('echo')
  const { code, stderr } = await run([echo, '0'], {}, permitted(read(echo)))
  expect([code, stderr]).toEqual([1, expect.stringContaining('without WorkerThreads')])
})

test('a plug-in that may not be read is told by its name', async () => {
  const { code, stderr } = await run([guest('echo'), '0', '--stall-ms', '0'], {}, permitted())
  expect([code, stderr]).toEqual([2, expect.stringMatching(/Cannot read plug-in .*echo\.wasm/)])
})

test('a host function in a thread reads what the process may read, and no more', async () => {
  const own = folder()
  const functions = join(own, 'functions.mjs')
  writeFileSync(join(own, 'allowed.txt'), 'allowed')
  const secret = join(folder(), 'secret.txt')
  writeFileSync(secret, 'secret')
  writeFileSync(
    functions,
    `import { readFileSync } from 'node:fs'
    const relay = (context, at) => {
      try { return context.store(readFileSync(context.read(at).text())) } catch (error) { return context.store(error.code) }
    }
    export default { env: { relay } }`,
  )
  const relay = guest('relay')
  const flags = [relay, '0', '--functions', functions, '--timeout', '5000']
  const url = await start(
    flags,
    {},
    permitted(read(relay), read(join(own, '*')), '--allow-worker'),
  ).listening()
  expect(await post(url, join(own, 'allowed.txt'))).toEqual([200, 'allowed'])
  expect(await post(url, secret)).toEqual([200, 'ERR_ACCESS_DENIED'])
})

test.runIf(process.platform === 'linux')(
  'a folder of a guest has to be allowed to the process too',
  async () => {
    const data = join(folder(), 'data')
    mkdirSync(data)
    writeFileSync(join(data, 'note.txt'), 'from the folder')
    const reader = guest('read-file')
    const flags = [reader, '0', '--stall-ms', '0', '--allow-path', `ro:${data}:/data`]
    const allowed = [read(reader), read(join(data, '*')), read('/proc/self/fd/*')]
    const url = await start(flags, {}, permitted(...allowed)).listening()
    expect(await post(url, 'note.txt')).toEqual([200, 'from the folder'])
    const { code } = await run(flags, {}, permitted(read(reader)))
    expect(code).toBe(1)
  },
)

test.runIf(process.platform === 'linux')('static takes its folder, and the open descriptors', async () => {
  const own = folder()
  const site = join(own, 'site')
  mkdirSync(site)
  writeFileSync(join(own, 'private.txt'), 'private')
  writeFileSync(join(site, 'page.txt'), 'a page')
  symlinkSync('../private.txt', join(site, 'out.txt'))
  const echo = guest('echo')
  const config = join(own, 'wasm-serve.json')
  writeFileSync(config, JSON.stringify({ static: { '/': 'site' }, plugins: { echo: { source: echo } } }))
  const flags = ['-c', config, '--port', '0', '--stall-ms', '0']
  const allowed = [read(echo), read(join(own, '*'))]
  const url = await start(flags, {}, permitted(...allowed, read('/proc/self/fd/*'))).listening()
  expect(await (await fetch(new URL('page.txt', url))).text()).toBe('a page')
  expect((await fetch(new URL('out.txt', url))).status).toBe(404)
  const { code, stderr } = await run(flags, {}, permitted(...allowed))
  expect([code, stderr]).toEqual([2, expect.stringContaining('--allow-fs-read=/proc/self/fd/*')])
})

test('lmdb takes addons and its folder, to read and to write', async () => {
  const state = folder()
  const visits = join(ROOT, 'plugins/visits/visits.wasm')
  const flags = [visits, '0', '--store', `lmdb:${state}`]
  const files = [read(join(dirname(visits), '*')), read(join(state, '*'))]
  const all = [...files, `--allow-fs-write=${join(state, '*')}`, '--allow-worker', '--allow-addons']
  const url = await start(flags, {}, permitted(...all)).listening()
  expect(await post(url, 'Bob')).toEqual([200, 'Bob: 1\n'])
  expect(readFileSync(join(state, 'data.mdb')).length).toBeGreaterThan(0)

  const without = await run(flags, {}, permitted(...all.slice(0, -1)))
  expect([without.code, without.stderr]).toEqual([1, expect.stringContaining('without Addons')])
})

test('the admin listener takes nothing more', async () => {
  const echo = guest('echo')
  const server = start([echo, '0', '--stall-ms', '0', '--admin', '0'], {}, permitted(read(echo)))
  await server.listening()
  const [, admin] = /admin listener is on (\S+),/.exec(server.stderr()) ?? []
  expect((await fetch(`${admin}/readyz`)).status).toBe(200)
})
