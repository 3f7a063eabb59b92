import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build as esbuild } from 'esbuild'
import { rolldown } from 'rolldown'
import { describe, expect, test } from 'vitest'
import { extismGuest } from '../support/extism-guest.ts'
import { ROOT } from '../support/user-package.ts'

/* A program of a user that is bundled to one file, and runs where nothing else is. */

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-bundled-'))
mkdirSync(join(folder, 'node_modules'))
symlinkSync(ROOT, join(folder, 'node_modules/wasm-serve'))
mkdirSync(join(folder, 'data'))
writeFileSync(join(folder, 'data/hello.txt'), 'from a file')

/** Reads a file, asks the host, and answers with both. */
writeFileSync(
  join(folder, 'guest.wasm'),
  extismGuest(`
    (import "extism:host/user" "relay" (func $relay (param i64) (result i64)))
    (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (data (i32.const 64) "hello.txt")
    (func (export "_initialize"))
    (func (export "run")
      (if (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0))
        (then (unreachable)))
      (i32.store (i32.const 8) (i32.const 256)) (i32.store (i32.const 12) (i32.const 100))
      (drop (call $read (i32.load (i32.const 0)) (i32.const 8) (i32.const 1) (i32.const 16)))
      (call $answer (call $relay (call $text (i32.const 256) (i32.load (i32.const 16))))))
    (func (export "trap") (unreachable))
    (func (export "echo") (call $output_set (call $input_offset) (call $input_length)))`),
)

const PROGRAM = `
async function main() {
  const [wasm, data, mode] = process.argv.slice(2)
  const plugin = await createPlugin(wasm, {
    useWasi: true,
    runInWorker: mode === 'worker',
    allowedPaths: { '/data': data },
    functions: { 'extism:host/user': { relay: (context, at) => context.store(context.read(at).text() + ', and the host') } },
  })
  console.log((await plugin.call('run')).text())
  console.log((await plugin.call('echo', 'x'.repeat(10000))).byteLength)
  console.log(await plugin.call('trap').catch((error) => error.constructor.name))
  console.log(await plugin.getInstance().then(() => 'an instance', (error) => error.code))
  await plugin.close()
}
main()
`

const SOURCES = {
  'an import': `import createPlugin from 'wasm-serve/extism'\n${PROGRAM}`,
  'a require': `const createPlugin = require('wasm-serve/extism')\n${PROGRAM}`,
}

type Bundle = (entry: string, format: 'esm' | 'cjs', outfile: string) => Promise<unknown>

const BUNDLERS: Readonly<Record<string, Bundle>> = {
  esbuild: (entry, format, outfile) =>
    esbuild({ entryPoints: [entry], bundle: true, platform: 'node', format, outfile, minify: true }),
  rolldown: async (entry, format, outfile) => {
    const bundle = await rolldown({ input: entry, platform: 'node' })
    await bundle.write({ format, file: outfile, codeSplitting: false })
  },
}

describe.each(Object.keys(BUNDLERS))('%s', (bundler) => {
  test.each([
    ['an import', 'esm'],
    ['an import', 'cjs'],
    ['a require', 'cjs'],
  ] as const)('a program with %s runs as one file of %s', async (source, format) => {
    const entry = join(folder, `${bundler}-${source.slice(2)}.${source === 'an import' ? 'mjs' : 'cjs'}`)
    writeFileSync(entry, SOURCES[source])
    const name = format === 'esm' ? 'app.mjs' : 'app.cjs'
    const made = join(mkdtempSync(join(folder, 'made-')), name)
    await BUNDLERS[bundler]?.(entry, format, made)
    const empty = mkdtempSync(join(tmpdir(), 'wasm-serve-empty-'))
    cpSync(made, join(empty, name))
    for (const [mode, last] of [
      ['inline', 'an instance'],
      ['worker', 'WASM_SERVE_EXTISM_INSTANCE_REMOTE'],
    ] as const) {
      const args = [name, join(folder, 'guest.wasm'), join(folder, 'data'), mode]
      const printed = execFileSync(process.execPath, args, { cwd: empty, encoding: 'utf8' })
      expect(printed.trim().split('\n'), mode).toEqual([
        'from a file, and the host',
        '10000',
        'RuntimeError',
        last,
      ])
    }
  })
})
