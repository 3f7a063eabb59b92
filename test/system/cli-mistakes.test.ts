import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../support/cli.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { functions } from '../support/module-bytes.ts'

const echo = guest('echo')
const folder = join(dirname(echo), 'folder.wasm')
mkdirSync(folder)

/** A mistake in what the plug-in is: one message that names the file and the reason, exit 2. */
const badPlugins: readonly [name: string, path: string, ...said: (string | RegExp)[]][] = [
  ['a missing file', join(dirname(echo), 'ecko.wasm'), 'no such file', '"echo.wasm"'],
  ['a directory', folder, 'directory'],
  ['a device', '/dev/zero', 'not a regular file'],
  ['an empty file', file('empty.wasm', ''), 'empty'],
  ['an HTML page', file('page.wasm', '<!DOCTYPE html><html></html>'), 'HTML'],
  ['a gzip archive', file('zipped.wasm', gzipSync(guestBytes('echo'))), 'gzip'],
  ['a native program', file('elf.wasm', '\x7fELF\x02\x01\x01'), 'ELF'],
  ['WebAssembly text', file('text.wasm', '(module)'), 'wat2wasm'],
  ['plain text', file('plain.wasm', 'hällo'), 'it is text'],
  ['unknown bytes', file('noise.wasm', Uint8Array.of(1, 2, 0, 255)), '010200ff'],
  ['a component', file('component.wasm', '\0asm\x0d\0\x01\0'), 'component', 'core module'],
  ['another version', file('version.wasm', '\0asm\x02\0\0\0'), 'version 2'],
  [
    'a module that is cut off',
    file('cut.wasm', guestBytes('upper').subarray(0, 200)),
    'cut off',
    /\d+ bytes are missing/,
  ],
  ['a header that is cut off', file('head.wasm', '\0asm\x01'), 'cut off'],
  ['a module that is invalid', file('invalid.wasm', invalidModule()), 'not a valid module'],
  [
    'a module that asks too much of the compiler',
    file('locals.wasm', functions({ locals: [[20_000, 0x7f]], code: 1 })),
    'function 0 has 20001 locals',
    '--module-limit locals=20001',
  ],
  [
    'no export that can be called',
    guest('no-export'),
    'no function can be called',
    'add (i32, i32) -> (i32)',
  ],
]

test.each(badPlugins)('%s as a plug-in ends with a message and exit 2', async (_, path, ...said) => {
  const { code, stdout, stderr } = await run([path, '0'])
  expect(code).toBe(2)
  expect(stdout).toBe('')
  expect(stderr).toMatch(/^wasm-serve: /)
  for (const text of said) expect(stderr).toMatch(text)
  expectNoStack(stderr)
})

test('a guest that does not start is no mistake of the user: exit 1', async () => {
  const { code, stdout, stderr } = await run([guest('bad-start'), '0'])
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^wasm-serve: .*cannot be started.*unreachable/)
  expectNoStack(stderr)
})

test('of several failures one mistake makes the exit code 2', async () => {
  const config = (source: string) => {
    const plugins = `plugins: { a: { source: ${source} }, b: { source: ${guest('bad-start')} } }`
    return file('several.yaml', `${plugins}\nport: 0\n`)
  }
  expect((await run(['-c', config('ecko.wasm')])).code).toBe(2)
  expect((await run(['-c', config(guest('bad-start'))])).code).toBe(1)
})

test('a message on one line has its code behind it, and one of several lines has it on the last', async () => {
  const flag = await run([echo, '--prot', '80'])
  expect(flag.stderr).toMatch(
    /^wasm-serve: unknown flag .* \(WASM_SERVE_USAGE_INVALID\)\nTry wasm-serve --help\n$/,
  )

  const missing = await run([join(dirname(echo), 'ecko.wasm'), '0'])
  expect(missing.stderr).toMatch(/^wasm-serve: .* \(WASM_SERVE_PLUGIN_UNREADABLE\)\n$/)

  const config = file('two-mistakes.yaml', 'porrt: 1\nhots: a\n')
  const { stderr } = await run(['check', '-c', config])
  expect(stderr).toMatch(/^wasm-serve: .*\n.*\n.*\n\(WASM_SERVE_CONFIG_INVALID\)\n$/)
})

test('of several failures each has its code', async () => {
  const config = file(
    'two-failures.yaml',
    `plugins: { a: { source: ecko.wasm }, b: { source: ${guest('bad-import')} } }\n`,
  )
  const { code, stderr } = await run(['check', '-c', config])
  expect(code).toBe(2)
  expect(stderr).toContain(' (WASM_SERVE_PLUGIN_UNREADABLE)\n')
  expect(stderr).toMatch(/\n\(WASM_SERVE_PLUGIN_IMPORT_MISSING\)\n$/)
})

/** Modules for other hosts, by what shows it. */
const foreign: readonly [kind: string, text: string][] = [
  ['proxy-wasm', '(import "env" "proxy_log" (func (param i32 i32 i32) (result i32))) (func (export "go"))'],
  ['proxy-wasm', '(func (export "proxy_abi_version_0_2_1") (param i32))'],
  ['wasm-bindgen', '(import "wbg" "__wbg_alert_1" (func)) (func (export "go"))'],
  ['wasm-bindgen', '(func (export "__wbindgen_malloc") (param i32) (result i32) (i32.const 0))'],
  ['GOOS=js', '(import "gojs" "runtime.wasmExit" (func (param i32))) (func (export "run"))'],
  ['Emscripten', '(import "env" "emscripten_resize_heap" (func)) (func (export "main"))'],
  ['Emscripten', '(import "a" "b" (func)) (func (export "d"))'],
  ['a WebAssembly component', '(import "wasi:http/types@0.2.0" "x" (func)) (func (export "go"))'],
  ['a WebAssembly component', '(func (export "cabi_realloc") (param i32) (result i32) (i32.const 0))'],
  ['WASI preview 0', '(import "wasi_unstable" "fd_write" (func)) (func (export "_start"))'],
  ['WASIX', '(import "wasix_32v1" "proc_fork" (func)) (func (export "_start"))'],
  ['AssemblyScript', '(import "env" "abort" (func (param i32 i32 i32 i32))) (func (export "go"))'],
]

test.each(foreign)('a module for another host is named: %s, %s', async (kind, text) => {
  const path = file('foreign.wasm', guestBytes(`(module ${text})`))
  const { code, stderr } = await run(['check', path])
  expect(code).toBe(2)
  expect(stderr).toMatch(/^wasm-serve: .*\(WASM_SERVE_PLUGIN_FOREIGN\)\n$/)
  expect(stderr).toContain(kind)
  const { stdout } = await run(['inspect', path])
  expect(stdout).toContain(kind)
  expect(stdout).not.toContain('Run it')
})

test('a file is not proposed for its ending alone', async () => {
  const near = file('core.wasm', guestBytes('echo'))
  const { stderr } = await run(['check', join(dirname(near), 'nope.wasm')])
  expect(stderr).toMatch(/there is no such file \(/)
})

test('imports of a plug-in that a host function can provide name the flag', async () => {
  const needing = '(module (import "extism:host/user" "look" (func)) (func (export "go")))'
  const { stderr } = await run(['check', file('needing.wasm', guestBytes(needing))])
  expect(stderr).toMatch(/--functions.*\n.*extism:host\/user look \(function\)/)
})

test('imports that nobody provides are all listed', async () => {
  const { code, stderr } = await run([guest('bad-import'), '0'])
  expect(code).toBe(2)
  expect(stderr).toContain('extism:host/env teleport (function)')
  expect(stderr).toContain('env abort (function)')
  expect(stderr).toContain('env memory (memory)')
  expect(stderr).not.toContain('input_length')
})

test('a plug-in that needs WASI says so when WASI is off', async () => {
  const { code, stderr } = await run([guest('wasi'), '0', '--no-wasi'])
  expect(code).toBe(2)
  expect(stderr).toContain('--no-wasi')
  expect(stderr).toContain('fd_write')
})

test.each([
  ['a folder that does not exist', ['--allow-path', '/no/such/folder'], '/no/such/folder', '--allow-path'],
  ['a folder that is a file', ['--allow-path', echo], 'not a folder', '--allow-path'],
  [
    'host functions that are in no file',
    ['--functions', '/no/such.mjs'],
    '/no/such.mjs: there is no such file',
  ],
  ['an environment without WASI', ['--no-wasi', '--env', 'A=b'], 'WASI', '--no-wasi'],
  ['an environment on the sdk', ['--runtime', 'sdk', '--env', 'A=b'], 'environment', '--runtime'],
])('%s is refused, not ignored', async (_, flags, ...said) => {
  const { code, stderr } = await run([echo, '0', ...flags])
  expect(code).toBe(2)
  for (const text of said) expect(stderr).toContain(text)
  expectNoStack(stderr)
})

test('a plug-in whose name makes no URL is refused, unless routes say where it is served', async () => {
  const check = (name: string, more: object) =>
    run(['check', '-c', file(name, JSON.stringify({ plugins: { '..': { source: echo } }, ...more }))])
  const refused = await check('odd-name.json', {})
  expect(refused.code).toBe(2)
  expect(refused.stderr).toMatch(/odd-name\.json:1:\d+: plugin: no URL .* "\.\.": .*"routes"/)
  expect((await check('odd-route.json', { routes: [{ plugin: '..', url: '/up' }] })).code).toBe(0)
})

test('an unknown function is answered with the nearest one and the list', async () => {
  const { code, stderr } = await run([guest('several'), 'alhpa', '0'])
  expect(code).toBe(2)
  expect(stderr).toContain('did you mean "alpha"')
  expect(stderr).toContain('alpha, b:ta, several')
})

test('a function with parameters is refused with its signature', async () => {
  const { code, stderr } = await run([guest('several'), 'add', '0'])
  expect(code).toBe(2)
  expect(stderr).toContain('(i32, i32) -> (i32)')
})

test('a word that each object of JavaScript has is no command', async () => {
  const { code, stderr } = await run(['constructor'])
  expect([code, stderr]).toEqual([2, expect.stringContaining('no command "constructor"')])
})

test('a port that is taken is named, with a way out', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => {
    taken.close()
  })
  await once(taken, 'listening')
  const port = String((taken.address() as AddressInfo).port)
  const { code, stderr } = await run([echo, port])
  expect(code).toBe(1)
  expect(stderr).toContain(port)
  expect(stderr).toContain('--port')
})

test('an address that this machine does not have is named', async () => {
  const { code, stderr } = await run([echo, '0', '--host', '192.0.2.1'])
  expect(code).toBe(1)
  expect(stderr).toContain('192.0.2.1')
})

/** A mistake in how the command was called: exit 2. */
const badCalls: readonly [name: string, args: string[], env: Record<string, string>, ...said: string[]][] = [
  ['no plug-in', [], {}, 'name a plug-in', '--help'],
  ['an unknown flag', [echo, '--prot', '80'], {}, '--prot', 'did you mean "--port"'],
  ['an option of config files', [echo, '--cors'], {}, '--cors is not a flag', 'config file'],
  ['an admin port that is too large', [echo, '--admin', 'abc:99999'], {}, '--admin', '65535'],
  ['the admin token', [echo, '--admin-token', 'x'], {}, 'not a flag', 'WASM_SERVE_ADMIN_TOKEN'],
  ['a certificate without its key', [echo, '--tls-cert', 'a.pem'], {}, '--tls-key: is missing'],
  ['a flag without its value', [echo, '--port'], {}, '--port: needs a value'],
  ['a flag where a value belongs', [echo, '--host', '--port', '1'], {}, '--host: needs a value'],
  ['a port that is no number', [echo, '--port', '80a'], {}, '--port', '"80a"'],
  ['a port of too many digits', [echo, '1'.repeat(16)], {}, 'port: must be a whole number'],
  ['a port that is too large', [echo, '--port', '65536'], {}, '--port', '65535'],
  ['a plug-in given twice', [echo, '-m', echo], {}, 'plug-in', 'twice'],
  ['more memory than there is', [echo, '--memory-max', '65537'], {}, '--memory-max', '65536'],
  ['a limit of modules that there is not', [echo, '--module-limit', 'local=5'], {}, 'did you mean "locals"'],
  ['a limit of modules that is no number', [echo, '--module-limit', 'locals=x'], {}, 'NAME=NUMBER'],
  ['more bytes than a call can have', [echo, '--block-limit', '10GiB'], {}, '--block-limit'],
  ['an isolation that does not exist', [echo, '--isolation', 'total'], {}, '--isolation', 'reuse, fresh'],
  ['config that is no JSON', [echo, '--set-config', '{'], {}, '--set-config'],
  ['a config variable that is no JSON', [echo], { WASM_SERVE_SET_CONFIG: '{' }, 'WASM_SERVE_SET_CONFIG'],
  ['a word too many', [echo, 'echo', '80', '81'], {}, 'unexpected "80"', 'only the last word is a port'],
  ['a size of two words', [echo, '--body-limit', '10', 'MiB'], {}, 'one word, such as 10MiB'],
  ['a flag that is given twice', [echo, '--port', '1', '--port', '2'], {}, '--port is given twice'],
  ['a header that is given twice', [echo, '--header', 'A=1', '--header', 'A=2'], {}, '--header A is given'],
  ['a config file for --config', [echo, '--config', 'x.yaml'], {}, '-c x.yaml'],
  ['an empty config file name', ['-c', ''], {}, '-c: needs the path of a file'],
  ['one port for two listeners', [echo, '--admin', '9090', '--probes', '9090'], {}, '--probes: port 9090'],
  ['the port of the server for another', [echo, '--admin', '0.0.0.0:8080'], {}, '--admin: port 8080'],
  ['a host with its port', [echo, '--host', '0.0.0.0:80'], {}, '--host: must be an address'],
  ['a URL with a query', [echo, '--url', '/a?b=1'], {}, '--url: must have no query'],
  ['a URL of OpenAPI', [echo, '--url', '/a/{id}'], {}, '--url', ':id'],
  ['a parameter without a name', [echo, '--url', '/a/:'], {}, '--url', 'without a name'],
  ['threads that are missing', [echo, '--workers', '0', '--engine', 'workers'], {}, '--workers: must be 1'],
  ['a contract in capitals', [echo, '--contract', 'HTTP'], {}, 'did you mean "http"'],
  ['more memory than there is, as a size', [echo, '--memory-max', '1TiB'], {}, 'at most 4 GiB'],
  ['a state folder that is a file', [echo, '0', '--state', echo], {}, 'it is not a folder', '--state'],
  ['a word that is nothing', ['frobnicate'], {}, 'no command "frobnicate"', '--help'],
  ['a list of other tools', ['ls'], {}, 'wasm-serve check'],
  ['a plug-in that goes nowhere', ['push', echo], {}, 'name a plug-in and where it goes'],
  ['a push to a digest', ['push', echo, `oci://a.example/b@sha256:${'0'.repeat(64)}`], {}, 'name a tag only'],
  ['a push of two', ['push', echo, 'oci://a.example/b:1', 'c'], {}, 'unexpected "c"'],
  [
    'a time that is no number of seconds',
    ['push', echo, 'oci://a.example/b:1'],
    { SOURCE_DATE_EPOCH: '2020-01-01' },
    'SOURCE_DATE_EPOCH',
  ],
  ['a language that has no project', ['new', 'java'], {}, 'typescript'],
  ['a port given twice', [echo, '80', '--port=81'], {}, 'port', 'twice'],
  ['a function given twice', [echo, 'echo', '--function', 'echo'], {}, 'function', 'twice'],
  ['config without a value', [echo, '--config', 'key'], {}, '--config', 'KEY=VALUE'],
  ['a level that does not exist', [echo, '--log-level', 'loud'], {}, '--log-level', 'trace, debug, info'],
  ['a size that is none', [echo, '--body-limit', '10XB'], {}, '--body-limit', '64KiB'],
  ['a time that is none', [echo, '--timeout', '5x'], {}, '--timeout', 'such as 5s'],
  ['a variable with a wrong name', [echo], { WASM_SERVE_TIMOUT: '500' }, 'did you mean "WASM_SERVE_TIMEOUT"'],
  ['a variable that is none', [echo], { WASM_SERVE_ZZZZZZZZ: '1' }, 'unknown variable WASM_SERVE_ZZZZZZZZ'],
  ['the port of others', [echo, '-p', '80'], {}, 'did you mean "--port"'],
  ['a command of others', ['watch', echo], {}, 'wasm-serve dev'],
  ['the start of others', ['start'], {}, 'wasm-serve PLUGIN serves it'],
  ['the project of others', ['create'], {}, 'wasm-serve new'],
  ['the version of others', ['version'], {}, '--version'],
  ['a config file among plug-ins', [echo, 'a.yaml'], {}, '-c a.yaml'],
  ['a size of nothing', [echo, '--body-limit', '0'], {}, '--body-limit'],
  ['a negation of what is no switch', [echo, '--no-port'], {}, '--no-port'],
  ['a content type with a line break', [echo, '--content-type', 'a\nb'], {}, '--content-type'],
  ['a variable of the wrong kind', [echo], { WASM_SERVE_PORT: 'tcp://10.0.0.1:80' }, 'WASM_SERVE_PORT'],
  ['a variable that is no JSON', [echo], { WASM_SERVE_CONFIG: '{' }, 'WASM_SERVE_CONFIG', 'JSON'],
  [
    'a switch variable of the wrong kind',
    [echo],
    { WASM_SERVE_WASI: 'maybe' },
    'WASM_SERVE_WASI',
    'true or false',
  ],
]

test.each(badCalls)('%s ends with a message and exit 2', async (_, args, env, ...said) => {
  const { code, stdout, stderr } = await run(args, env)
  expect(code).toBe(2)
  expect(stdout).toBe('')
  for (const text of said) expect(stderr).toContain(text)
  expectNoStack(stderr)
})

test('a limit of modules can be set, by a flag, a variable and a config file', async () => {
  const module = file('lifted.wasm', functions({ locals: [[20_000, 0x7f]], code: 1 }))
  expect((await run(['inspect', module])).code).toBe(2)
  expect((await run(['inspect', module, '--module-limit', 'locals=30000'])).code).toBe(0)
  const variables = { WASM_SERVE_MODULE_LIMIT: '{"locals":30000}' }
  expect((await run(['inspect', module], variables)).code).toBe(0)

  const options = { moduleLimits: { types: 0 }, routes: [{ plugin: echo }] }
  const check = ['check', '--config-file', file('limited.json', JSON.stringify(options))]
  expect((await run(check)).code).toBe(2)
  expect((await run([...check, '--module-limit', 'types=100'])).code).toBe(0)
})

function expectNoStack(stderr: string): void {
  expect(stderr).not.toMatch(/^\s+at /m)
  expect(stderr).not.toContain('this is a bug')
}

/** Its first instruction does not exist. */
function invalidModule(): Uint8Array {
  const bytes = guestBytes('(module (func (export "go") (result i32) (i32.const 77)))')
  const at = bytes.lastIndexOf(77) // 77 is one LEB128 byte of two: 0xcd 0x00
  bytes[at === -1 ? bytes.indexOf(0xcd) - 1 : at] = 0xff
  return bytes
}

test('keys and tokens, which no client could give over standard input, are refused', async () => {
  const config = { apiKeys: ['a-key-of-some-length'], plugins: { echo: { source: echo } } }
  const { code, stdout, stderr } = await run(['mcp', '-c', file('keys.json', JSON.stringify(config))])
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain('standard input')
  expectNoStack(stderr)
})
