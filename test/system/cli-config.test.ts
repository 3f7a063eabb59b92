import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli.ts'
import { guestBytes } from '../support/guest.ts'

const post = async (url: string, body = '') => (await fetch(url, { method: 'POST', body })).text()
const status = async (url: string) => (await fetch(url, { method: 'POST', body: '' })).status
const variable = (name: string) => `\${${name}}`

/** A folder with these files; a guest's name stands for its bytes. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-cli-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), name.endsWith('.wasm') && content ? guestBytes(content) : content)
  }
  return folder
}

const YAML = `
port: 0
defaults:
  bodyLimit: 16
plugins:
  greeter:
    source: plugins/config.wasm
    config: { greeting: "Hello ${variable('WHO:-you')}" }
routes:
  - { url: /greet, plugin: greeter }
  - { url: /echo, plugin: plugins/echo.wasm, bodyLimit: 1MiB }
`

test("the working folder's config file is served, and its path printed", async () => {
  const folder = folderOf({
    'wasm-serve.yaml': YAML,
    'plugins/config.wasm': 'config',
    'plugins/echo.wasm': 'echo',
  })
  const server = start([], { WHO: 'secret world' }, { cwd: folder })
  const url = await server.listening()
  expect(await server.printed('Configured by')).toContain(join(folder, 'wasm-serve.yaml'))
  expect(await post(`${url}/greet`, 'greeting')).toBe('Hello secret world')
  expect(await post(`${url}/echo`, 'more than sixteen bytes')).toBe('more than sixteen bytes')
  expect((await fetch(`${url}/greet`, { method: 'POST', body: 'more than sixteen bytes' })).status).toBe(413)
})

test('a file with server options only is one for plug-ins that words name', async () => {
  const folder = folderOf({
    'c.json': '{"defaults": {"config": {"a": "from the file"}}, "port": 1}',
    'config.wasm': 'config',
  })
  const url = await start(['-c', 'c.json', 'config.wasm', '0'], {}, { cwd: folder }).listening()
  expect(await post(url, 'a')).toBe('from the file')
})

test('plug-ins without routes are served at their names', async () => {
  const config = JSON.stringify({
    port: 0,
    plugins: { up: { source: 'echo.wasm' }, many: { source: 'several.wasm' } },
  })
  const folder = folderOf({ 'c.json': config, 'echo.wasm': 'echo', 'several.wasm': 'several' })
  const url = await start([], { WASM_SERVE_CONFIG_FILE: 'c.json' }, { cwd: folder }).listening()
  expect(await post(`${url}/up`, 'x')).toBe('x')
  expect(await post(`${url}/many/alpha`)).toBe('a')
})

test('--print-config shows each value with its origin, and no value of the environment', async () => {
  const folder = folderOf({
    'wasm-serve.yaml': YAML,
    'plugins/config.wasm': 'config',
    'plugins/echo.wasm': 'echo',
  })
  const env = { WHO: 'sesame-1', WASM_SERVE_MAX_QUEUE: '7', WASM_SERVE_CONFIG: '{"key":"sesame-2"}' }
  const { code, stdout } = await run(['--print-config', '--drain-ms', '5', '9000'], env, { cwd: folder })
  expect(code).toBe(0)
  expect(stdout).not.toContain('sesame')
  const { file, options, from } = JSON.parse(stdout)
  expect(file).toBe('wasm-serve.yaml')
  expect(options).toMatchObject({ port: 9000, drainMs: 5, graceMs: 10_000 })
  expect(options.routes[0]).toMatchObject({
    plugin: join(folder, 'plugins/config.wasm'),
    bodyLimit: 16,
    config: { greeting: `Hello ${variable('WHO:-you')}`, key: variable('WASM_SERVE_CONFIG') },
  })
  expect(from).toMatchObject({
    port: '--port',
    drainMs: '--drain-ms',
    graceMs: 'default',
    'routes[0].bodyLimit': 'wasm-serve.yaml:4:14',
    'routes[0].config.greeting': 'wasm-serve.yaml:8:25',
    'routes[1].maxQueue': 'WASM_SERVE_MAX_QUEUE',
    'routes[1].bodyLimit': 'wasm-serve.yaml:11:57',
  })
})

test('--print-config shows no password of a URL, wherever it was given', async () => {
  const config = 'store: redis://me:sesame@localhost\nplugins: { e: { source: echo.wasm } }\n'
  const folder = folderOf({ 'wasm-serve.yaml': config, 'echo.wasm': 'echo' })
  for (const args of [[], ['--store', 'rediss://:sesame@localhost/0']]) {
    const { code, stdout } = await run(['--print-config', ...args], {}, { cwd: folder })
    expect([code, stdout]).toEqual([0, expect.not.stringContaining('sesame')])
    expect(JSON.parse(stdout).options.store).toMatch(/^rediss?:\/\/\(secret\)@localhost/)
  }
})

test('check ends with 2 when a folder has no plug-in', async () => {
  const folder = folderOf({ 'empty/readme.txt': 'text' })
  const { code, stderr } = await run(['check', 'empty'], {}, { cwd: folder })
  expect([code, stderr]).toEqual([2, expect.stringContaining('no .wasm file')])
})

test('a value of the environment is in no error and in no line of the log', async () => {
  const secret = 'sesame"\\1'
  const missing = folderOf({ 'c.yaml': `plugins: {a: {source: "${variable('KEY')}.wasm"}}` })
  const { code, stderr } = await run(['-c', 'c.yaml'], { KEY: 'sesame/open' }, { cwd: missing })
  expect(code).toBe(2)
  expect(stderr).not.toContain('sesame')
  expect(stderr).toContain(variable('KEY'))

  const logging = folderOf({
    'c.yaml': `port: 0\nroutes: [{plugin: log.wasm, function: log, config: {k: "${variable('KEY')}"}}]`,
    'log.wasm': 'log',
  })
  const server = start(['-c', 'c.yaml'], { KEY: secret }, { cwd: logging })
  await post(await server.listening(), `the key is ${secret}.`)
  server.kill('SIGTERM')
  const log = (await server.ended).stderr
  expect(log).not.toContain('sesame')
  expect(log.split('\n').filter((line) => line.includes(`the key is ${variable('KEY')}.`))).toHaveLength(3)
})

test.each([
  ['two of them', { 'wasm-serve.json': '{}', 'wasm-serve.yaml': '' }, [], 'wasm-serve.yaml', '--config-file'],
  ['one that does not exist', {}, ['-c', 'none.yaml'], 'no such file'],
  ['one that is wrong', { 'c.json': '{"prot": 1}' }, ['-c', 'c.json'], 'c.json:1:2', 'did you mean "port"'],
  ['one of TOML', { 'c.toml': 'port = 1' }, ['-c', 'c.toml'], 'c.toml', 'TOML', 'YAML'],
  ['one of TOML that is found', { 'wasm-serve.toml': 'port = 1' }, [], 'wasm-serve.toml', 'TOML', 'YAML'],
  ['one of TOML in the place of a plug-in', { 'c.toml': '' }, ['c.toml'], 'c.toml is not a plug-in', 'YAML'],
  ['one without plug-ins', { 'c.yaml': 'port: 0' }, ['-c', 'c.yaml'], 'c.yaml has no plug-in'],
  [
    'one with plug-ins, and words',
    { 'c.yaml': 'routes: [{plugin: a.wasm}]' },
    ['-c', 'c.yaml', 'b.wasm'],
    'b.wasm',
  ],
  [
    'one function for several plug-ins',
    { 'c.yaml': 'routes: [{plugin: a.wasm}, {plugin: b.wasm, url: /b}]' },
    ['-c', 'c.yaml', '--function', 'f'],
    '--function',
  ],
])('a config file, %s, ends with a message and exit 2', async (_, files, args, ...said) => {
  const { code, stdout, stderr } = await run(args, {}, { cwd: folderOf(files) })
  expect([code, stdout]).toEqual([2, ''])
  for (const text of said) expect(stderr).toContain(text)
  expect(stderr).not.toMatch(/^\s+at |this is a bug/m)
})

test('check loads and starts everything, listens nowhere, and tells what would be served', async () => {
  const folder = folderOf({
    'wasm-serve.yaml': YAML,
    'plugins/config.wasm': 'config',
    'plugins/echo.wasm': 'echo',
  })
  const { code, stdout, stderr } = await run(['check'], {}, { cwd: folder })
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(/POST +\/greet +greeter +config +inline\n +POST +\/echo +plugins\/echo +echo/)
  expect(stdout).not.toContain('listens')
})

test('check lists every plug-in that would keep the server from starting, and exits with 2', async () => {
  const folder = folderOf({
    'echo.wasm': 'echo',
    'several.wasm': 'several',
    'bad-start.wasm': 'bad-start',
    'c.yaml': `routes:
  - { url: /a, plugin: ecko.wasm }
  - { url: /b, plugin: several.wasm, function: alhpa }
  - { url: /c, plugin: bad-start.wasm }
  - { url: /d, plugin: echo.wasm }`,
  })
  const { code, stdout, stderr } = await run(['check', '-c', 'c.yaml'], {}, { cwd: folder })
  expect([code, stdout]).toEqual([2, ''])
  for (const text of ['ecko.wasm', 'did you mean "alpha"', 'bad-start cannot be started'])
    expect(stderr).toContain(text)
})

const ALL_WRONG = `accessLogs: true
routes:
  - { url: /a, plugin: ecko.wasm }
  - { url: /b, plugin: several.wasm, function: alhpa }
  - { url: /c, plugin: bad-start.wasm }
  - { url: /d, plugin: echo.wasm, engine: inline, timeoutMs: 5, interrupts: off }
  - { url: /e, plugin: echo.wasm, bodyLimit: many }
  - { url: /f, plugin: echo.wasm, allowedPaths: { nowhere: / } }
  - { url: /a, plugin: start-loop.wasm, startTimeoutMs: 500 }
  - { url: /g }
`

test.each([
  ['check', [] as string[]],
  ['a start', ['0']],
])('%s tells of all that is wrong at once, with line and column', async (name, args) => {
  const folder = folderOf({
    'c.yaml': ALL_WRONG,
    ...Object.fromEntries(
      ['echo', 'several', 'bad-start', 'start-loop'].map((each) => [`${each}.wasm`, each]),
    ),
  })
  const words = name === 'check' ? ['check', ...args] : args
  const { code, stdout, stderr } = await run([...words, '-c', 'c.yaml'], {}, { cwd: folder })
  expect([code, stdout]).toEqual([2, ''])
  for (const text of [
    'c.yaml:1:1: accessLogs: unknown option; did you mean "accessLog"?',
    'c.yaml:3:24: Cannot read plug-in',
    'c.yaml:4:48: Plug-in several: it has no function "alhpa"; did you mean "alpha"?',
    'c.yaml:5:24: Route POST /c: Plug-in bad-start cannot be started',
    'c.yaml:6:62: timeoutMs: a guest on the event loop cannot',
    'c.yaml:7:46: bodyLimit: ',
    'c.yaml:8:49: Route POST /f: The allowed path',
    'c.yaml:9:12: this URL is also that of line 3',
    'c.yaml:9:24: Route POST /: Plug-in start-loop cannot be started: it had not started after 500 ms',
    'c.yaml:10:5: ',
  ])
    expect(stderr).toContain(text)
  const problems = stderr.split('\n').filter((line) => line.trimStart().startsWith('c.yaml:'))
  expect(problems).toHaveLength(10)
})

test('what is wrong in the options of the server does not hide what is wrong with a plug-in', async () => {
  const folder = folderOf({
    'c.yaml': 'http2: true\nplugins:\n  a: { source: none.wasm }\n  b: { source: echo.wasm }\n',
    'echo.wasm': 'echo',
  })
  const { code, stderr } = await run(['check', '-c', 'c.yaml'], {}, { cwd: folder })
  expect(code).toBe(2)
  expect(stderr).toContain('c.yaml:1:8: http2: needs tls')
  expect(stderr).toContain('c.yaml:3:16: Cannot read plug-in')
  expect(stderr).not.toContain('echo')
})

test('several plug-ins are mounted at their names, and their functions below', async () => {
  const folder = folderOf({ 'echo.wasm': 'echo', 'several.wasm': 'several' })
  const url = await start(['echo.wasm', 'several.wasm', '0'], {}, { cwd: folder }).listening()
  expect(await post(`${url}/echo`, 'x')).toBe('x')
  expect(await post(`${url}/several/alpha`)).toBe('a')
  expect(await post(`${url}/several`)).toBe('s')
  expect(await status(url)).toBe(404)
})

test('a folder is mounted as it is, without what is hidden, and ends where links go round', async () => {
  const folder = folderOf({
    'p/node_modules/some/inside.wasm': 'echo',
    'p/echo.wasm': 'echo',
    'p/deep/er/echo.wasm': 'echo',
    'p/a:b.wasm': 'echo',
    'p/st*r.wasm': 'echo',
    'p/.hidden.wasm': '',
    'p/.git/x.wasm': '',
    'p/notes.txt': '',
  })
  symlinkSync('..', join(folder, 'p/deep/up'))
  symlinkSync('self', join(folder, 'p/self'))
  symlinkSync('echo.wasm', join(folder, 'p/linked.wasm'))
  const server = start(['p', '0'], {}, { cwd: folder })
  const url = await server.listening()
  for (const path of ['/echo', '/deep/er/echo', '/a:b', '/linked'])
    expect(await post(url + path, path)).toBe(path)
  expect((await server.printed('curl')).match(/POST/g)).toHaveLength(4)
  server.kill('SIGTERM')
  expect((await server.ended).stderr).toContain('st*r.wasm')
})

test('two plug-ins with the same mount are refused, and both named', async () => {
  const folder = folderOf({
    'a/x.wasm': 'echo',
    'b/x.wasm': 'echo',
    'c/several.wasm': 'several',
    'c/several/alpha.wasm': 'echo',
  })
  const two = await run(['a/x.wasm', 'b/x.wasm'], {}, { cwd: folder })
  expect(two.code).toBe(2)
  expect(two.stderr).toContain('/x: a/x.wasm and b/x.wasm')
  const nested = await run(['c'], {}, { cwd: folder })
  expect(nested.code).toBe(2)
  expect(nested.stderr).toContain('/several/alpha: ')
})

test('after one plug-in its export is the function, even if there is a folder of that name', async () => {
  const folder = folderOf({ 'several.wasm': 'several', 'alpha/echo.wasm': 'echo' })
  expect(await post(await start(['several.wasm', 'alpha', '0'], {}, { cwd: folder }).listening())).toBe('a')
  const url = await start(['several.wasm', './alpha', '0'], {}, { cwd: folder }).listening()
  expect(await post(`${url}/echo`, 'x')).toBe('x')
})

test("a command's name is never a folder, unless it has a path", async () => {
  const folder = folderOf({ 'check/echo.wasm': 'echo' })
  expect((await run(['check', 'check'], {}, { cwd: folder })).stdout).toMatch(/POST +\/echo/)
  expect((await run(['check'], {}, { cwd: folder })).stderr).toContain('name a plug-in')
  const url = await start(['./check', '0'], {}, { cwd: folder }).listening()
  expect(await post(`${url}/echo`, 'x')).toBe('x')
})

test('help is a command too', async () => {
  expect((await run(['help'])).stdout).toBe((await run(['--help'])).stdout)
})

test('a route of the file has its methods, contract, headers, threads and deadline', async () => {
  const config = `
port: 0
stallMs: 0
routes:
  - { url: /, method: GET, plugin: refuse.wasm, contract: http, errorStatus: 418, headers: { x-a: b } }
  - { url: /, method: PUT, plugin: loop.wasm, workers: 1, timeoutMs: "${variable('MS')}", timing: true }
  - { url: /echo, plugin: echo.wasm, workers: 1, timing: true }`
  const files = { 'refuse.wasm': 'refuse', 'loop.wasm': 'loop', 'echo.wasm': 'echo' }
  const cwd = folderOf({ 'wasm-serve.yaml': config, ...files })
  const server = start([], { MS: '50' }, { cwd })
  const url = await server.listening()
  expect(await server.printed('Try it')).toMatch(/PUT +\/ +loop .* 1 worker \(--workers 1\)/)
  const refused = await fetch(url)
  expect([refused.status, refused.headers.get('x-a')]).toEqual([418, 'b'])
  const late = await fetch(url, { method: 'PUT' })
  expect([late.status, late.headers.get('server-timing')]).toEqual([
    504,
    expect.stringContaining('guest;dur='),
  ])
  const echoed = await fetch(`${url}/echo`, { method: 'POST', body: 'abc' })
  expect(await echoed.text()).toBe('abc')
  expect(echoed.headers.get('server-timing')).toContain('guest;dur=')
})

test('what no engine has is told with the line or the flag that asks for it', async () => {
  const config = 'routes:\n  - { plugin: echo.wasm, engine: inline,\n      timeoutMs: 5, interrupts: off }'
  const cwd = folderOf({ 'c.yaml': config, 'echo.wasm': 'echo' })
  const inFile = await run(['check', '-c', 'c.yaml'], {}, { cwd })
  expect([inFile.code, inFile.stderr]).toEqual([
    2,
    expect.stringContaining('c.yaml:3:18: timeoutMs: a guest'),
  ])
  const flagged = await run(
    ['echo.wasm', '0', '--engine', 'inline', '--timeout', '5', '--interrupts', 'off'],
    {},
    { cwd },
  )
  expect([flagged.code, flagged.stderr]).toEqual([
    2,
    expect.stringContaining('--timeout: a guest on the event loop'),
  ])
})

test('several plug-ins share a contract and methods; a URL is for one', async () => {
  const cwd = folderOf({ 'a.wasm': 'echo', 'b.wasm': 'several' })
  const flags = ['--contract', 'http', '--method', 'GET,POST']
  const { code, stdout } = await run(['check', 'a.wasm', 'b.wasm', ...flags], {}, { cwd })
  expect(code).toBe(0)
  expect(stdout).toMatch(/GET,POST,HEAD +\/a +a +echo/)
  expect(stdout).toMatch(/GET,POST,HEAD +\/b\/alpha +b +alpha/)
  const one = await run(['a.wasm', 'b.wasm', '--url', '/x'], {}, { cwd })
  expect([one.code, one.stderr]).toEqual([2, expect.stringContaining('--url applies to a single plug-in')])
})

test('commands that work on one plug-in read no config file', async () => {
  const cwd = folderOf({ 'c.yaml': 'defaults: { isolation: fresh }', 'count.wasm': 'count' })
  for (const command of ['call', 'inspect', 'bench']) {
    const { code, stderr } = await run([command, 'count.wasm', '--config-file', 'c.yaml'], {}, { cwd })
    expect([code, stderr]).toEqual([2, expect.stringContaining(`${command} reads no config file`)])
  }
  const called = await run(
    ['call', 'count.wasm', 'count', '--loop', '2'],
    { WASM_SERVE_CONFIG_FILE: 'c.yaml' },
    { cwd },
  )
  expect(called.stdout).toBe('12')
})

test('a variable without quotes inside of a YAML map in braces is one problem, and told how to write it', async () => {
  const folder = folderOf({
    'c.yaml': `routes:\n  - { url: /a, plugin: echo.wasm, config: { a: \${A} } }\n  - { url: /b, plugin: echo.wasm }\n`,
  })
  const { code, stderr } = await run(['check', '-c', 'c.yaml'], { A: '1' }, { cwd: folder })
  expect(code).toBe(2)
  expect(stderr).toMatch(/c\.yaml:2:\d+: .*put quotes around/)
  expect(stderr.match(/c\.yaml:\d/g)?.length).toBeLessThan(4)
})
