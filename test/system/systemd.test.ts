import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { CLI } from '../support/cli-process.ts'
import { describeWith } from '../support/tools.ts'
import { ROOT } from '../support/user-package.ts'

const UNIT = readFileSync(join(ROOT, 'deploy/systemd/wasm-serve@.service'), 'utf8')

/** System calls that the unit refuses, that Node.js tries, and can do without. */
const REFUSED = ['pkey_alloc']

const run = promisify(execFile)

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-unit-'))
  onTestFinished(() => rmSync(path, { recursive: true }))
  return path
}

/** All values of a directive. */
function values(name: string): string[] {
  return [...UNIT.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value)
}

describeWith(['systemd-analyze'], () => {
  test('systemd knows each directive of the unit, and finds little exposed', async () => {
    const path = join(folder(), 'wasm-serve@blue.service')
    writeFileSync(path, UNIT.replaceAll('/usr/bin/node', process.execPath))
    const { stdout, stderr } = await run('systemd-analyze', ['verify', path])
    expect(stdout + stderr).toBe('')
    await run('systemd-analyze', ['security', '--offline=true', '--threshold=15', path]) // of 100; rejects if it is more
  })
})

test('the line of the unit serves on the socket, and what waits for it ends', async () => {
  const { socket, start } = unitIn(folder())
  const server = start([])
  await waitFor(socket, server)
  expect(await post(socket)).toBe('{"message":"🦀 Hello Bob"}')
  const ended = once(server, 'exit')
  server.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
})

test('what waits for the socket fails when the process has ended', async () => {
  const { socket, start, config } = unitIn(folder())
  writeFileSync(config, 'plugins: { hello: { source: missing.wasm } }')
  const server = start([])
  await once(server, 'exit')
  await expect(waitFor(socket, server)).rejects.toMatchObject({ code: 1 })
})

test('a wrong configuration is not started again', async () => {
  const { start, config } = unitIn(folder())
  writeFileSync(config, 'pluginz: {}')
  const [code] = await once(start([]), 'exit')
  expect(values('RestartPreventExitStatus')).toEqual([`${code}`])
})

test('the user, which systemd makes, has another name than the group, which is there', () => {
  expect(values('DynamicUser')).toEqual(['yes'])
  expect([...values('User'), ...values('Group'), ...values('SupplementaryGroups')]).toEqual([
    'wasm-serve-%i',
    'wasm-serve',
  ])
})

describeWith(['systemd-analyze', 'strace'], () => {
  test('the system calls that the unit refuses are not needed', async () => {
    const root = folder()
    const { socket, start } = unitIn(root)
    const log = join(root, 'calls')
    const refuse = REFUSED.map((name) => `--inject=${name}:error=EPERM`)
    const server = start(['strace', '-f', '-qq', '-o', log, ...refuse])
    const ended = once(server, 'exit')
    await waitFor(socket, server)
    expect(await post(socket)).toBe('{"message":"🦀 Hello Bob"}')
    process.kill(Number(readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, 'utf8')), 'SIGTERM')
    expect(await ended).toEqual([0, null])

    const names = readFileSync(log, 'utf8').matchAll(/^\d+ +([a-z]\w*)\(/gm)
    const allowed = await allowedCalls()
    const used = new Set([...names].map(([, name = '']) => name))
    expect(used.size).toBeGreaterThan(30)
    expect([...used].filter((name) => !allowed.has(name) && !REFUSED.includes(name))).toEqual([])
  })
})

/** The places of the unit, in a folder. */
function unitIn(root: string) {
  const socket = join(root, 'wasm-serve-blue/http.sock')
  mkdirSync(join(root, 'wasm-serve-blue'))
  const config = join(root, 'wasm-serve.yaml')
  const plugins = `plugins: { hello: { source: ${join(ROOT, 'plugins/hello/hello.wasm')}, timeoutMs: 5000 } }`
  writeFileSync(config, `${plugins}\nroutes: [{ url: /, plugin: hello }]\n`)
  const line = inside(values('ExecStart')[0] ?? '', root)
    .replaceAll('/usr/bin/node', process.execPath)
    .replace('/opt/wasm-serve/blue/node_modules/wasm-serve/dist/cli.js', CLI)
    .replace('/etc/wasm-serve/wasm-serve.yaml', config)
    .split(' ')
  const start = (before: readonly string[]) => {
    const [program = '', ...args] = [...before, ...line]
    const server = spawn(program, args, { stdio: 'ignore' })
    onTestFinished(() => void server.kill('SIGKILL'))
    return server
  }
  return { socket, start, config }
}

function inside(line: string, root: string): string {
  return line.replaceAll('%t', root).replaceAll('%i', 'blue')
}

/** Runs the shell script of `ExecStartPost`, as systemd does. */
async function waitFor(socket: string, { pid }: ChildProcess): Promise<void> {
  const [, script = ''] = /^\/bin\/sh -c '(.*)'$/.exec(values('ExecStartPost')[0] ?? '') ?? []
  const line = script.replace('%t/wasm-serve-%i/http.sock', socket)
  expect([existsSync('/bin/sh'), line.includes(socket)]).toEqual([true, true])
  await run('/bin/sh', ['-c', line], { env: { ...process.env, MAINPID: `${pid}` }, timeout: 20_000 })
}

async function post(socketPath: string): Promise<string> {
  const sending = request({ socketPath, method: 'POST', agent: false }).end('Bob')
  const [answer] = await once(sending, 'response')
  return text(answer)
}

/** What the filters of the unit leave, one after the other as systemd does. */
async function allowedCalls(): Promise<Set<string>> {
  const { stdout } = await run('systemd-analyze', ['syscall-filter'])
  const sets = new Map<string, string[]>()
  let members: string[] = []
  for (const line of stdout.split('\n')) {
    const name = line.trim()
    if (/^@/.test(line)) {
      members = []
      sets.set(name, members)
    } else if (name !== '' && !name.startsWith('#')) members.push(name)
  }
  const callsOf = (name: string): string[] =>
    name.startsWith('@') ? (sets.get(name) ?? []).flatMap(callsOf) : [name]
  const allowed = new Set<string>()
  for (const filter of values('SystemCallFilter')) {
    const isRefusal = filter.startsWith('~')
    for (const name of filter.replace('~', '').split(' ').flatMap(callsOf)) {
      if (isRefusal) allowed.delete(name)
      else allowed.add(name)
    }
  }
  return allowed
}
