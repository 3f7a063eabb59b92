import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bundleScript } from '../../../src/script/bundle.ts'

/** A folder with these files. */
function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-bundle-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

test('a script has what it imports from its project and from packages, and its map has no sources', async () => {
  const folder = folderWith({
    'package.json': '{}',
    'src/plugin.ts': "import { a } from '../a.ts'\nimport b from 'b'\nexport const c: string = a + b",
    'a.ts': "export const a = 'of the project'",
    'node_modules/b/package.json': '{ "name": "b", "main": "b.js" }',
    'node_modules/b/b.js': "export default 'of a package'",
  })
  const read: string[] = []
  const { source, map } = await bundleScript(join(folder, 'src/plugin.ts'), 'a test', (path) =>
    read.push(path),
  )
  expect(source).toContain('of the project')
  expect(source).toContain('of a package')
  expect(map).not.toHaveProperty('sourcesContent')
  expect(read).toContain(join(folder, 'a.ts'))
})

test('a script cannot publish a file beside its project', async () => {
  const folder = folderWith({
    'secret.json': '"secret"',
    'project/package.json': '{}',
    'project/plugin.ts': "export { default } from '../secret.json'",
  })
  await expect(bundleScript(join(folder, 'project/plugin.ts'), 'a test')).rejects.toMatchObject({
    code: 'WASM_SERVE_SCRIPT_INVALID',
  })
})
