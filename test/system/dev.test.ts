import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Output } from '../support/cli.ts'
import { CLI, run, start } from '../support/cli-process.ts'
import { describeWith } from '../support/tools.ts'

/** A folder with these files; those that begin with `#!` can be run. */
function folder(files: Readonly<Record<string, string>>): string {
  const at = realpathSync(mkdtempSync(join(tmpdir(), 'wasm-serve-dev-')))
  onTestFinished(() => rmSync(at, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(at, name)), { recursive: true })
    writeFileSync(join(at, name), text)
    if (text.startsWith('#!')) chmodSync(join(at, name), 0o755)
  }
  return at
}

const SOON = { timeout: 15_000, interval: 50 }

const answers = (word: string) => `export const f = () => { console.log('guest'); return '${word}' }`

const post = async (url: string) => (await fetch(url, { method: 'POST' })).text()

const problem = async (url: string) => (await fetch(url, { method: 'POST' })).json()

const TOKEN = 'a-token-of-a-test-that-is-long-enough'

const answering = (url: string, text: string) =>
  vi.waitFor(async () => expect(await post(url)).toBe(text), SOON)

const CONFIG = 'routes: [{ url: /, plugin: plugin.js }]\n'

/** A project whose build makes the plug-in of a word. */
const built = (build: string) =>
  folder({
    'build.sh': `set -e\n${build}\necho "export const f = () => '$(cat word.txt)'" > plugin.js\n`,
    'word.txt': 'one',
    'wasm-serve.yaml': CONFIG,
  })

/** Writes a file at once: a write in place empties it first, and a build may begin in between. */
function replace(path: string, text: string): void {
  const hidden = join(dirname(path), '.new')
  writeFileSync(hidden, text)
  renameSync(hidden, path)
}

test('a script is served again when it changes, with its log and that of requests', async () => {
  const at = folder({ 'plugin.js': answers('one') })
  const server = start(['dev', 'plugin.js', '0'], {}, { cwd: at })
  const url = await server.listening()
  expect(url).toContain('//127.0.0.1:')
  expect(await server.printed('curl')).toContain(`curl ${url}/`)
  expect(await post(url)).toBe('one')
  await server.logged('"msg":"guest"')
  await server.logged('"url":"/"')
  writeFileSync(join(at, 'plugin.js'), answers('two'))
  await answering(url, 'two')
  writeFileSync(join(at, 'plugin.js'), 'export const f = (')
  await server.logged('cannot be used')
  expect(await problem(url)).toMatchObject({ code: 'WASM_SERVE_SCRIPT_INVALID' })
  writeFileSync(join(at, 'plugin.js'), answers('three'))
  await answering(url, 'three')
  server.kill('SIGTERM')
  expect((await server.ended).code).toBe(0)
})

test('a folder is built by build.sh in the folder, and again when a source changes', async () => {
  const at = built('echo "in $PWD: $(cat word.txt)"')
  const server = start(['dev', at, '0'])
  const url = await server.listening()
  expect(server.stderr()).toContain(`in ${at}: one\n`)
  expect(await post(url)).toBe('one')
  writeFileSync(join(at, 'word.txt'), 'two')
  await server.logged(`in ${at}: two\n`)
  await answering(url, 'two')
})

test('a build that fails is the answer until one succeeds, and its output is shown', async () => {
  const at = built(`grep -v bad word.txt || { echo 'word.txt: bad <word> & "more"'; exit 3; }`)
  const server = start(['dev', at, '0'], { WASM_SERVE_ADMIN: '127.0.0.1:0', WASM_SERVE_ADMIN_TOKEN: TOKEN })
  const url = await server.listening()
  expect(await post(url)).toBe('one')
  writeFileSync(join(at, 'word.txt'), 'bad')
  await server.logged('word.txt: bad <word> & "more"\nThe build failed: it exited with status 3\n')
  await server.logged('Responses show this failure')

  const answer = await fetch(url, { method: 'POST' })
  expect([answer.status, answer.headers.get('content-type'), answer.headers.get('cache-control')]).toEqual([
    500,
    'application/problem+json',
    'no-store',
  ])
  expect(await answer.json()).toMatchObject({
    status: 500,
    code: 'WASM_SERVE_BUILD_FAILED',
    detail: 'The build failed: it exited with status 3\nword.txt: bad <word> & "more"',
  })
  const page = await fetch(url, { method: 'POST', headers: { accept: 'text/html,*/*;q=0.8' } })
  expect([page.status, page.headers.get('content-type')]).toEqual([500, 'text/html; charset=utf-8'])
  const html = await page.text()
  expect(html).toContain('word.txt: bad &lt;word&gt; &amp; &quot;more&quot;')
  expect(html).not.toContain('<word>')
  expect(html).toContain('WASM_SERVE_BUILD_FAILED')

  const [, admin] = /admin listener is on (\S+?)(?:,|\n)/.exec(server.stderr()) ?? []
  const behind = async (path: string) => {
    const shown = await fetch(`${admin}${path}`, { headers: { authorization: `Bearer ${TOKEN}` } })
    return ((await shown.json()) as { behind?: { code: string } }).behind?.code
  }
  for (const path of ['/api', '/api/live']) expect(await behind(path)).toBe('WASM_SERVE_BUILD_FAILED')

  writeFileSync(join(at, 'word.txt'), 'good')
  await answering(url, 'good')
  for (const path of ['/api', '/api/live']) expect(await behind(path)).toBeUndefined()
})

test('a build that makes the same again ends the failure', async () => {
  const at = built('grep -v bad word.txt')
  const server = start(['dev', at, '0'])
  const url = await server.listening()
  writeFileSync(join(at, 'word.txt'), 'bad')
  await vi.waitFor(
    async () => expect(await problem(url)).toMatchObject({ code: 'WASM_SERVE_BUILD_FAILED' }),
    SOON,
  )
  writeFileSync(join(at, 'word.txt'), 'one')
  await answering(url, 'one')
})

test('a plug-in that fails is the answer of its routes; others are reloaded, and keep what they know', async () => {
  const counts = (word: string) => `let n = 0; export const f = () => '${word} ' + ++n`
  const at = folder({ 'a.js': answers('a1'), 'b.js': answers('b1'), 'c.js': counts('c') })
  const server = start(['dev', at, '0'])
  const url = await server.listening()
  expect(await post(`${url}/c`)).toBe('c 1')
  writeFileSync(join(at, 'a.js'), 'export const f = (')
  await server.logged('cannot be used')
  expect(await problem(`${url}/a`)).toMatchObject({ code: 'WASM_SERVE_SCRIPT_INVALID' })
  expect(await post(`${url}/b`)).toBe('b1')
  writeFileSync(join(at, 'b.js'), answers('b2'))
  await answering(`${url}/b`, 'b2')
  expect(await problem(`${url}/a`)).toMatchObject({ code: 'WASM_SERVE_SCRIPT_INVALID' })
  writeFileSync(join(at, 'a.js'), answers('a2'))
  await answering(`${url}/a`, 'a2')
  expect(await post(`${url}/c`)).toBe('c 2')
})

test('a mistake in the configuration is the answer of all routes', async () => {
  const at = folder({ 'plugin.js': answers('one'), 'wasm-serve.yaml': CONFIG })
  const server = start(['dev', at, '0'])
  const url = await server.listening()
  writeFileSync(join(at, 'wasm-serve.yaml'), 'routs: []')
  await vi.waitFor(async () => expect((await fetch(url, { method: 'POST' })).status).toBe(500), SOON)
  expect(await problem(url)).toMatchObject({ status: 500, code: expect.stringMatching(/^WASM_SERVE_/) })
  writeFileSync(join(at, 'wasm-serve.yaml'), CONFIG)
  await answering(url, 'one')
})

test('before the first success it waits for a change, and its address answers why', async () => {
  const at = built('grep -v bad word.txt || { echo "a <bad> word"; exit 1; }')
  writeFileSync(join(at, 'word.txt'), 'bad')
  const server = start(['dev', at, '0'])
  const said = await server.logged(/Waiting for a change; \S+ shows the failure\n/)
  const meanwhile = /change; (\S+) /.exec(said)?.[1] ?? ''
  expect(await problem(`${meanwhile}/any/url`)).toMatchObject({
    status: 500,
    code: 'WASM_SERVE_BUILD_FAILED',
    detail: expect.stringContaining('a <bad> word'),
  })
  const page = await (await fetch(meanwhile, { headers: { accept: 'text/html' } })).text()
  expect(page).toContain('a &lt;bad&gt; word')
  writeFileSync(join(at, 'word.txt'), 'good')
  expect(await post(await server.listening())).toBe('good')
})

test.each([
  ['the script', 'plugin.js', 'export const f = (', answers('one')],
  ['what it imports', 'other.js', 'export const g = (', "export const g = () => 'one'"],
  ['the configuration', 'wasm-serve.yaml', 'routs: []', CONFIG],
])('a mistake in %s is repaired while it waits', async (_, name, wrong, right) => {
  const importing = "import { g } from './other.js'\nexport const f = () => g()"
  const at = folder({
    'plugin.js': name === 'other.js' ? importing : answers('one'),
    'wasm-serve.yaml': CONFIG,
    [name]: wrong,
  })
  const server = start(['dev', '0'], {}, { cwd: at })
  await server.logged('Waiting for a change')
  writeFileSync(join(at, name), right)
  expect(await post(await server.listening())).toBe('one')
})

test('a change during a build builds again, one build at a time', async () => {
  const outside = folder({})
  const at = built(`mkdir ${outside}/lock; cat word.txt > ${outside}/begun
    until [ -e ${outside}/go ]; do sleep 0.05; done; rmdir ${outside}/lock`)
  writeFileSync(join(outside, 'go'), '')
  const server = start(['dev', at, '0'])
  const url = await server.listening()
  rmSync(join(outside, 'go'))
  writeFileSync(join(at, 'word.txt'), 'two')
  await vi.waitFor(() => expect(readFileSync(join(outside, 'begun'), 'utf8')).toBe('two'), SOON)
  await new Promise((resolve) => setTimeout(resolve, 50)) // a later time of the file
  writeFileSync(join(at, 'word.txt'), 'three')
  writeFileSync(join(outside, 'go'), '')
  await server.logged('word.txt has changed during the build: building again')
  await answering(url, 'three')
  expect(server.stderr()).not.toContain('The build failed')
})

test('a build that writes among its sources ends, and its sources are still watched', async () => {
  const outside = folder({})
  const at = built(`date +%N > stamp.txt; echo >> ${outside}/builds`)
  writeFileSync(join(at, 'stamp.txt'), 'old')
  const server = start(['dev', at, '0'])
  const url = await server.listening()
  const builds = () => readFileSync(join(outside, 'builds'), 'utf8').length
  expect(builds()).toBe(3)
  for (const word of ['two', 'three']) {
    const before = builds()
    replace(join(at, 'word.txt'), word)
    await answering(url, word)
    expect(builds()).toBe(before + 1)
  }
})

test('hidden files, packages and results of builds are no sources', async () => {
  const outside = folder({})
  const at = built(`echo >> ${outside}/builds`)
  const server = start(['dev', at, '0'])
  const url = await server.listening()
  const builds = () => readFileSync(join(outside, 'builds'), 'utf8').length
  expect(builds()).toBe(1)
  for (const name of ['.git/index', 'node_modules/a/a.js', 'target/a.rs', 'dist/a.js', 'a.wasm']) {
    mkdirSync(dirname(join(at, name)), { recursive: true })
    writeFileSync(join(at, name), 'x')
  }
  replace(join(at, 'word.txt'), 'two')
  await answering(url, 'two')
  expect(server.stderr()).not.toContain('during the build: building again\nBuilding: bash build.sh\nBuilt')
})

test.each([
  ['Cargo.toml', '', 'cargo', 'target/wasm32-unknown-unknown/release/plugin.wasm'],
  ['go.mod', '', 'go', 'plugin.wasm'],
  ['package.json', '{ "scripts": { "build": "make it" } }', 'npm', 'dist/plugin.wasm'],
])('a folder with %s is built without build.sh', async (name, text, program, result) => {
  const hello = new URL('../../plugins/hello/hello.wasm', import.meta.url).pathname
  const bin = folder({
    [program]: `#!/bin/sh\necho "${program} $*: $GOOS"\nmkdir -p ${dirname(result)}\ncp ${hello} ${result}\n`,
  })
  const at = folder({ [name]: text })
  const server = start(['dev', at, '0'], { PATH: `${bin}:${process.env.PATH}` })
  expect(await post(await server.listening())).toContain('Hello')
  expect(server.stderr()).toMatch(
    { cargo: /^cargo build --release/m, go: /^go build .*: wasip1$/m, npm: /^npm run --silent build/m }[
      program
    ] ?? /^$/,
  )
})

test('a folder of scripts needs no build, also with a package.json', async () => {
  const at = folder({
    'plugin.js': answers('one'),
    'package.json': '{ "scripts": { "build": "wasm-serve build plugin.js" } }',
  })
  const server = start(['dev', at, '0'])
  expect(await post(`${await server.listening()}/plugin`)).toBe('one')
  expect(server.stderr()).not.toContain('Building')
})

test('a program that is missing fails the build in words', async () => {
  const at = folder({ 'go.mod': '' })
  const server = start(['dev', at, '0'], { PATH: '/nowhere' })
  await server.logged('The build failed: spawn go ENOENT\nWaiting for a change')
})

test('a signal ends the build, too', async () => {
  const at = built('sleep 600 & echo $! > pid; wait')
  const server = start(['dev', at, '0'])
  const pid = await vi.waitFor(() => {
    const text = readFileSync(join(at, 'pid'), 'utf8')
    expect(text).toMatch(/\n/)
    return Number(text)
  }, SOON)
  server.kill('SIGTERM')
  expect((await server.ended).signal).toBe('SIGTERM')
  await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow(), SOON)
})

test('a signal drains several processes, which it started after a build', async () => {
  const server = start(['dev', built('true'), '0', '--processes', '2'])
  expect(await post(await server.listening())).toBe('one')
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0, signal: null })
})

test('addresses of the network are shown with --host 0.0.0.0', async () => {
  const at = folder({ 'plugin.js': answers('one') })
  const server = start(['dev', at, '0', '--host', '0.0.0.0'])
  const url = await server.listening()
  const shown = await server.printed(/On the network: \S+\n|Try it:\n.*\n/)
  expect(url).toContain('0.0.0.0')
  for (const address of /On the network: (.+)\n/.exec(shown)?.[1]?.split(' ') ?? [])
    expect(await post(`${address}/plugin`)).toBe('one')
})

test.each([
  [['dev', 'nowhere.ts'], 2, /there is no file or folder nowhere\.ts/],
  [['dev', '--nowhere'], 2, /unknown flag --nowhere/],
  [['dev', '.', '--log-level', 'loud'], 2, /--log-level/],
])('%j is a mistake', async (words, code, message) => {
  const result = await run(words, {}, { cwd: folder({ 'plugin.js': answers('one') }) })
  expect([result.code, result.stderr]).toEqual([code, expect.stringMatching(message)])
})

test.each([
  ['', 'export const f = () => 1'],
  ['before the first success', 'export const f = ('],
])('a port that is taken ends it %s', async (_, script) => {
  const taken = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void taken.close())
  await once(taken, 'listening')
  const address = taken.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const { code, stderr } = await run(['dev', folder({ 'plugin.js': script }), String(port)])
  expect([code, stderr]).toEqual([1, expect.stringContaining('WASM_SERVE_LISTEN_FAILED')])
})

describeWith(['script'], () => {
  /** The command in a terminal, which tells its state after the command has ended. */
  function terminal(words: string, env: NodeJS.ProcessEnv = {}) {
    const line = `echo pid $$; '${process.execPath}' '${CLI}' dev ${words}; echo ended $?; stty -a`
    const child = spawn('script', ['-qec', line, '/dev/null'], { env: { ...process.env, ...env } })
    onTestFinished(() => void child.kill('SIGKILL'))
    const output = new Output()
    child.stdout.on('data', (bytes: Buffer) => output.add('stdout', bytes))
    const ended = once(child, 'close')
    return {
      ended,
      press: (keys: string) => child.stdin.write(keys),
      shows: (text: string | RegExp, times = 1) => output.shown('stdout', text, times, ended),
    }
  }

  const restored = /ended 0[\s\S]* icanon[\s\S]* echo /

  test('keys reload, open a browser, clear and quit', async () => {
    const bin = folder({ 'xdg-open': `#!/bin/sh\necho "$1" > "$(dirname "$0")/opened"\n` })
    const at = folder({ 'plugin.js': answers('one') })
    const shown = terminal(`${at} 0`, { PATH: `${bin}:${process.env.PATH}`, NO_COLOR: '1' })
    const text = await shown.shows('Keys: r reload, o open in a browser, c clear, q quit')
    const url = /listens on (http:[\w.:/]+)/.exec(text)?.[1] ?? ''
    shown.press('o')
    await vi.waitFor(() => expect(readFileSync(join(bin, 'opened'), 'utf8')).toBe(`${url}\n`), SOON)
    shown.press('c')
    await shown.shows('\x1b[2J')
    shown.press('xr')
    await shown.shows('SIGHUP')
    shown.press('q')
    await shown.shows(restored)
  })

  test('a browser that cannot be started does not end it', async () => {
    const bin = folder({ '.keep': '' })
    for (const program of ['script', 'stty']) symlinkSync(`/usr/bin/${program}`, join(bin, program))
    const shown = terminal(`${folder({ 'plugin.js': answers('one') })} 0`, { PATH: bin })
    await shown.shows('Keys: r reload')
    shown.press('o')
    await shown.shows('xdg-open cannot open a browser: open http://')
    shown.press('q')
    await shown.shows(restored)
  })

  test('r builds, and Ctrl-C quits', async () => {
    const at = built('true')
    const shown = terminal(`${at} 0`)
    await shown.shows('Keys: r build')
    shown.press('r')
    await shown.shows('Building: bash build.sh', 2)
    await shown.shows('Built in', 2)
    shown.press('\x03')
    await shown.shows(restored)
  })

  test.each([
    ['Ctrl-C during a build', 'sleep 600', '\x03'],
    ['q while it waits', 'exit 1', 'q'],
  ])('%s gives the terminal back', async (_, build, key) => {
    const at = built(build)
    const shown = terminal(`${at} 0`)
    await shown.shows(build === 'exit 1' ? 'Waiting for a change' : 'Building')
    shown.press(key)
    await shown.shows(/ended 130[\s\S]* icanon[\s\S]* echo /)
  })
})
