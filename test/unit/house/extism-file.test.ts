import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { expect, test } from 'vitest'
import '../../../src/errors/errors.ts'
import { failureEntries } from '../../../src/errors/failure.ts'

/* Programs that users bundle contain these built files: what they do not contain is missing where such a program runs. */

test.each([
  'dist/extism.js',
  'lib/extism-thread.cjs',
])('%s loads modules of Node.js only, and needs no path of its own', async (path) => {
  const file = fileURLToPath(new URL(`../../../${path}`, import.meta.url))
  const { metafile, warnings } = await build({
    entryPoints: [file],
    bundle: true,
    platform: 'node',
    write: false,
    metafile: true,
    logLevel: 'silent',
  })
  const [input, ...others] = Object.values(metafile.inputs)
  expect(others).toEqual([])
  expect(input?.imports.length).toBeGreaterThan(3)
  for (const { path: name, external } of input?.imports ?? [])
    expect([name, external, name.startsWith('node:') && isBuiltin(name)]).toEqual([name, true, true])
  expect(warnings).toEqual([])
  expect(readFileSync(file, 'utf8')).not.toMatch(/import\.meta|createRequire|__dirname|__filename/)
})

test('dist/extism.js has the messages of errors, and not the texts of their page', () => {
  const program = readFileSync(new URL('../../../dist/extism.js', import.meta.url), 'utf8')
  const { message, cause, remedy } =
    failureEntries().find(({ code }) => code === 'WASM_SERVE_EXTISM_PLUGIN_CLOSED') ?? {}
  expect(program).toContain(message)
  expect(program).not.toContain(cause)
  expect(program).not.toContain(remedy)
})
