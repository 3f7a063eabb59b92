import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { open, post } from '../support/socket.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const CLI = join(ROOT, 'dist/cli.js')

/** An empty package where wasm-serve is installed. */
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-npx-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  mkdirSync(join(path, 'node_modules/.bin'), { recursive: true })
  symlinkSync(ROOT, join(path, 'node_modules/wasm-serve'))
  symlinkSync('../wasm-serve/dist/cli.js', join(path, 'node_modules/.bin/wasm-serve'))
  const scripts = { start: `wasm-serve ${guest('echo')} 0` }
  writeFileSync(join(path, 'package.json'), JSON.stringify({ name: 'empty', scripts }))
  return path
}

/** Runs a command until the server that it starts listens. */
async function run(
  command: string,
  args: readonly string[],
  options: { shell?: string; npm?: boolean } = {},
) {
  const inherited = Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_'))
  const child = spawn(command, args, {
    cwd: folder(),
    env: {
      ...Object.fromEntries(inherited),
      NO_COLOR: '1',
      npm_config_update_notifier: 'false',
      ...(options.shell && { npm_config_script_shell: options.shell }),
      ...(options.npm && { npm_config_user_agent: 'npm' }),
    },
    detached: true, // a process group, so that all of it ends with the test
    stdio: 'pipe',
  })
  onTestFinished(() => endGroup(child))
  let output = ''
  const collect = (text: string) => (output += text)
  child.stdout.setEncoding('utf8').on('data', collect)
  child.stderr.setEncoding('utf8').on('data', collect)
  // The server holds the other end of its output: it is gone when that is closed.
  const allGone = once(child, 'close').then(() => output)
  const printed = async (text: RegExp): Promise<RegExpExecArray> => {
    for (let over = false; ; ) {
      const found = text.exec(output)
      if (found) return found
      if (over) throw new Error(`ended without printing ${text}: ${output}`)
      const news = [once(child.stdout, 'data'), once(child.stderr, 'data')]
      over = await Promise.race([...news.map((data) => data.then(() => false)), allGone.then(() => true)])
    }
  }
  const [, port] = await printed(/listens on http:\/\/127\.0\.0\.1:(\d+)/)
  return { child, port: Number(port), printed, allGone }
}

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // nobody is left: good
  }
}

/** Begins a request and waits until the server has, too; three bytes are to follow. */
async function begin(port: number) {
  const client = await open(port)
  client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n')
  expect((await client.answer())?.status).toBe(100)
  return client
}

const NPX = ['--no-install', 'wasm-serve', guest('echo'), '0'] as const

/** With dash, `sh` stays between npm and the server; bash becomes the server. */
const SHELLS = ['sh', 'bash'] as const

test.each(SHELLS)('SIGTERM for npx alone makes the server drain and go away (%s)', async (shell) => {
  const npx = await run('npx', NPX, { shell })
  const client = await begin(npx.port)
  npx.child.kill('SIGTERM')
  await npx.printed(/"msg":"closing"/)
  client.send('abc')
  expect(await client.answers()).toMatchObject([{ status: 200, headers: { connection: 'close' } }])
  expect(await npx.allGone).toContain('"msg":"closed"')
  await expect(open(npx.port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test.each(SHELLS)('a killed npx makes the server drain and go away (%s)', async (shell) => {
  const npx = await run('npx', NPX, { shell })
  const client = await begin(npx.port)
  npx.child.kill('SIGKILL')
  await npx.printed(/"reason":"npm is gone"/)
  client.send('abc')
  expect(await client.answers()).toMatchObject([{ status: 200, headers: { connection: 'close' } }])
  expect(await npx.allGone).toContain('"msg":"closed"')
})

test('SIGTERM for npm start alone makes the server drain and go away', async () => {
  const npm = await run('npm', ['start'])
  npm.child.kill('SIGTERM')
  expect(await npm.allGone).toContain('"msg":"closed"')
  await expect(open(npm.port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test.each(SHELLS)('one Ctrl-C under npx is one signal, also if npm hands it on (%s)', async (shell) => {
  const terminal = await run('script', inTerminal(`npx ${NPX.join(' ')}`), { shell })
  const client = await begin(terminal.port)
  terminal.child.stdin?.write('\x03')
  await terminal.printed(/closing.*reason=SIGINT/)
  client.send('abc')
  expect(await client.answers()).toMatchObject([{ status: 200, headers: { connection: 'close' } }])
  const output = await terminal.allGone
  expect(output).toContain('closed')
  expect(output).not.toContain('second signal')
})

test('a second Ctrl-C under npx ends the server at once', async () => {
  const terminal = await run('script', inTerminal(`npx ${NPX.join(' ')}`))
  await begin(terminal.port)
  terminal.child.stdin?.on('error', () => undefined) // it may be gone before the last key
  const impatient = setInterval(() => terminal.child.stdin?.write('\x03'), 50)
  const output = await terminal.allGone
  clearInterval(impatient)
  expect(output).toContain('second signal')
})

test('a server in the background of an interactive shell stays when the shell ends, also below npm', async () => {
  // `set -m` is what makes a shell interactive here: jobs get process groups of their own.
  const background = `set -m; "${process.execPath}" "${CLI}" "${guest('echo')}" 0 & echo job=$!; read line`
  const shell = await run('bash', ['-c', background], { npm: true })
  const [, job] = await shell.printed(/job=(\d+)/)
  onTestFinished(() => {
    process.kill(Number(job), 'SIGKILL')
  })
  shell.child.stdin?.end()
  await once(shell.child, 'exit')
  const client = await open(shell.port)
  for (let begun = performance.now(); performance.now() - begun < 1_000; ) {
    client.send(post('abc'))
    expect((await client.answer())?.headers.connection).toBe('keep-alive')
  }
})

/** Arguments of `script`, which runs a command in a terminal of its own. */
function inTerminal(command: string): string[] {
  return process.platform === 'linux'
    ? ['-qec', command, '/dev/null']
    : ['-q', '/dev/null', 'sh', '-c', command]
}
