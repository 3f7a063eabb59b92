import { execFile } from 'node:child_process'
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
  const others = packedPaths.filter((path) => !/^(plugins|dist)\//.test(path))
  expect(others.sort()).toEqual(['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json'])
  // And the plug-in that the README serves: nothing that was built besides.
  expect(packedPaths.filter((path) => path.startsWith('plugins/')).sort()).toEqual(
    [...templates, 'plugins/hello/hello.wasm'].sort(),
  )
})
