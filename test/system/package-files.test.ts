import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { LANGUAGES, type Template } from '../../src/cli/new/languages.ts'

test('the package has all that projects are made of', async () => {
  const { stdout } = await promisify(execFile)('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
  })
  const [packed] = JSON.parse(stdout) as { files: { path: string }[] }[]
  const packedPaths = packed?.files.map(({ path }) => path) ?? []
  const built = Object.values(LANGUAGES).flatMap((language) => {
    const templates: readonly Template[] = Object.values(language.templates)
    return templates.flatMap(({ files }) => Object.values(files))
  })
  const folder = new URL('../../plugins/templates/', import.meta.url)
  const own = readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name, parentPath }) => `templates/${basename(parentPath)}/${name}`)
  const templates = new Set([...built, ...own].map((path) => `plugins/${path}`))
  const others = packedPaths.filter((path) => !/^(plugins|dist|deploy)\//.test(path))
  expect(others.sort()).toEqual(['LICENSE', 'README.md', 'package.json'])
  // And the plug-in that the README serves: only what runs scripts besides.
  expect(packedPaths.filter((path) => path.startsWith('plugins/')).sort()).toEqual(
    [
      ...templates,
      'plugins/hello/hello.wasm',
      'plugins/script-engine/engine.wasm.br',
      'plugins/script-engine/modules.d.ts',
      'plugins/script-engine/plugin.d.ts',
    ].sort(),
  )
})
