import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { extismGuest } from '../support/extism-guest.ts'
import { pageSnippets } from '../support/pages.ts'
import { userPackage } from '../support/user-package.ts'

vi.setConfig({ testTimeout: 120_000 }) // each test starts Node.js anew

const folder = userPackage()
const snippets = pageSnippets('docs/serve/extism.md')

const guests = {
  'loop.wasm': `
    (func (export "loop") (loop $again (br $again)))
    (func (export "echo") (call $output_set (call $input_offset) (call $input_length)))`,
  'http.wasm': '(func (export "get") (call $answer (call $http_request (call $copy) (i64.const 0))))',
  'log.wasm': '(func (export "log") (call $log_debug (call $copy)) (call $log_info (call $copy)))',
  'vars.wasm': `
    (data (i32.const 0) "v")
    (func (export "set") (call $var_set (call $text (i32.const 0) (i32.const 1)) (call $copy)))
    (func (export "get") (call $answer (call $var_get (call $text (i32.const 0) (i32.const 1)))))`,
  'files.wasm': `
    (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (data (i32.const 64) "hello.txt")
    (func (export "_start"))
    (func (export "read")
      (if (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 9) (i32.const 0)
            (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0))
        (then (unreachable)))
      (i32.store (i32.const 8) (i32.const 256))
      (i32.store (i32.const 12) (i32.const 100))
      (drop (call $read (i32.load (i32.const 0)) (i32.const 8) (i32.const 1) (i32.const 16)))
      (call $answer (call $text (i32.const 256) (i32.load (i32.const 16)))))`,
}

for (const [name, text] of Object.entries(guests)) writeFileSync(join(folder, name), extismGuest(text))

async function run(file: string, code: string): Promise<string> {
  writeFileSync(join(folder, file), code)
  const args = file.endsWith('.ts') ? ['--import', 'tsx', file] : [file]
  return (await promisify(execFile)(process.execPath, args, { cwd: folder })).stdout
}

test('the page has a snippet of each feature', () => {
  expect(snippets.length).toBeGreaterThanOrEqual(7)
})

test.each(
  snippets.flatMap((snippet, i) => [
    [i, 'wasm-serve/extism', snippet] as const,
    [i, '@extism/extism', snippet.replaceAll('wasm-serve/extism', '@extism/extism')] as const,
  ]),
)('snippet %i prints what it says, with %s', async (i, name, code) => {
  const expected = [...code.matchAll(/\/\/ => (.*)$/gm)].map(([, line]) => line)
  expect(expected.length).toBeGreaterThan(0)
  const printed = await run(`snippet-${i}-${name.startsWith('@') ? 'sdk' : 'ours'}.ts`, code)
  expect(printed.trimEnd().split('\n')).toEqual(expected)
})

test('require returns the function, as that of the SDK does', async () => {
  const names = (from: string) => `
    const createPlugin = require('${from}')
    console.log(typeof createPlugin, Object.keys(createPlugin).sort().join())
    createPlugin('loop.wasm').then(async (plugin) => console.log((await plugin.call('echo', 'hi')).text()))`
  const printed = await run('require-ours.cjs', names('wasm-serve/extism'))
  expect(printed).toBe('function CAPABILITIES,createPlugin,default,newPlugin\nhi\n')
  expect(printed).toBe(await run('require-sdk.cjs', names('@extism/extism')))
})

test('nothing of the SDK is loaded', async () => {
  const code = `
    import createPlugin from 'wasm-serve/extism'
    const plugin = await createPlugin('loop.wasm', { runInWorker: true })
    console.log((await plugin.call('echo', 'hi')).text())
    console.log(process.moduleLoadList.some((name) => /wasi/.test(name)))`
  const blocked = `
    export async function resolve(name, context, next) {
      if (name.startsWith('@extism/')) throw new Error('the SDK was asked for')
      return next(name, context)
    }`
  writeFileSync(join(folder, 'block.mjs'), blocked)
  writeFileSync(
    join(folder, 'register.mjs'),
    `import { register } from 'node:module'; register('./block.mjs', import.meta.url)`,
  )
  writeFileSync(join(folder, 'blocked.mjs'), code)
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', './register.mjs', 'blocked.mjs'],
    { cwd: folder },
  )
  expect(stdout).toBe('hi\nfalse\n')
})

test('a guest writes to the streams of the process if it may', async () => {
  const printing = `
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (data (i32.const 64) "no newline")
    (func (export "say")
      (i32.store (i32.const 8) (i32.const 64))
      (i32.store (i32.const 12) (i32.const 10))
      (drop (call $write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 16))))
    (func (export "_start"))`
  writeFileSync(join(folder, 'print.wasm'), extismGuest(printing))
  const say = (options: object) => `
    import createPlugin from 'wasm-serve/extism'
    const plugin = await createPlugin('print.wasm', ${JSON.stringify({ useWasi: true, ...options })})
    await plugin.call('say')
    await plugin.close()`
  expect(await run('silent.mjs', say({}))).toBe('')
  expect(await run('loud.mjs', say({ enableWasiOutput: true }))).toBe('no newline')
  expect(await run('loud-worker.mjs', say({ enableWasiOutput: true, runInWorker: true }))).toBe('no newline')
})

test('a plug-in that was not closed keeps no process alive', async () => {
  const code = `
    import createPlugin from 'wasm-serve/extism'
    const plugin = await createPlugin('loop.wasm', { runInWorker: true })
    console.log((await plugin.call('echo', 'hi')).text())`
  expect(await run('not-closed.mjs', code)).toBe('hi\n')
})
