import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { LANGUAGES } from '../../src/cli/new/new.ts'

test('the package has all that projects are made of', async () => {
  const { stdout } = await promisify(execFile)('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
  })
  const [packed] = JSON.parse(stdout) as { files: { path: string }[] }[]
  const packedPaths = packed?.files.map(({ path }) => path) ?? []
  const templates = Object.values(LANGUAGES).flatMap(({ folder, files }) =>
    files.map((file) => `plugins/${folder}/${file}`),
  )
  const scripts = ['hello', 'http'].flatMap((name) =>
    readdirSync(new URL(`../../plugins/templates/${name}`, import.meta.url)).map(
      (file) => `plugins/templates/${name}/${file}`,
    ),
  )
  const others = packedPaths.filter((path) => !/^(plugins|dist|deploy)\//.test(path))
  expect(others.sort()).toEqual(['LICENSE', 'README.md', 'package.json'])
  // And the plug-in that the README serves: only what runs scripts besides.
  expect(packedPaths.filter((path) => path.startsWith('plugins/')).sort()).toEqual(
    [
      ...templates,
      ...scripts,
      'plugins/hello/hello.wasm',
      'plugins/script-engine/engine.wasm.br',
      'plugins/script-engine/modules.d.ts',
      'plugins/script-engine/plugin.d.ts',
    ].sort(),
  )
})
