import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../support/cli.ts'

const SCRIPT = "export const hello = (name) => 'Hello, ' + name"
const HELLO = new URL('../../plugins/hello/hello.wasm', import.meta.url)

/** A folder with these files, and with plug-ins. */
function folder(files: Readonly<Record<string, string>>, plugins: readonly string[] = []): string {
  const at = mkdtempSync(join(tmpdir(), 'wasm-serve-init-'))
  onTestFinished(() => rmSync(at, { recursive: true, force: true }))
  for (const name of [...Object.keys(files), ...plugins])
    mkdirSync(dirname(join(at, name)), { recursive: true })
  for (const [name, text] of Object.entries(files)) writeFileSync(join(at, name), text)
  for (const name of plugins) copyFileSync(HELLO, join(at, name))
  return at
}

test.each([
  ['scripts', { 'a.js': SCRIPT, 'sub/b c.js': SCRIPT, 'a.test.js': SCRIPT }, [], ['/a', '/sub/b c']],
  ['plug-ins', { 'a.js': SCRIPT }, ['one.wasm', 'two.wasm'], ['/one', '/two']],
  [
    'what cargo has built',
    { 'Cargo.toml': '', '.cargo/config.toml': '' },
    ['target/wasm32-wasip1/release/one.wasm', 'target/wasm32-wasip1/release/deps/one-1.wasm'],
    ['/one'],
  ],
])('init writes a configuration of %s, which is right', async (_, files, plugins, urls) => {
  const cwd = folder(files, plugins)
  const before = readdirSync(cwd)
  const { code, stderr, stdout } = await run(['init'], {}, { cwd })
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain('Wrote wasm-serve.yaml')
  expect(readdirSync(cwd).sort()).toEqual([...before, 'wasm-serve.yaml'].sort())
  const checked = await run(['check'], {}, { cwd })
  expect([checked.code, checked.stderr]).toEqual([0, ''])
  for (const url of urls) expect(checked.stdout).toContain(` ${url} `)
  expect(checked.stdout.match(/POST/g)).toHaveLength(urls.length)
})

test('init of another folder names its files from there', async () => {
  const at = folder({ 'sub/a.js': SCRIPT })
  expect((await run(['init', join(at, 'sub')])).code).toBe(0)
  expect(readFileSync(join(at, 'sub/wasm-serve.yaml'), 'utf8')).toContain('source: "a.js"')
})

test.each([
  ['a configuration', { 'a.js': SCRIPT, 'wasm-serve.json': '{}' }, [], 2, /wasm-serve\.json exists/],
  ['nothing to serve', { 'README.md': '' }, [], 2, /no plug-in and no script in \. \(/],
  ['nothing built yet', { 'build.sh': '' }, [], 2, /build it first, by bash build\.sh/],
  ['no folder', {}, ['nowhere'], 2, /there is no folder nowhere/],
  ['two folders', {}, ['.', '.'], 2, /one folder at a time/],
  ['a flag', {}, ['--port', '1'], 2, /init has no flag --port/],
])('with %s init writes nothing', async (_, files, words, code, message) => {
  const cwd = folder(files)
  const before = readdirSync(cwd)
  const result = await run(['init', ...words], {}, { cwd })
  expect([result.code, result.stderr]).toEqual([code, expect.stringMatching(message)])
  expect(readdirSync(cwd)).toEqual(before)
})
