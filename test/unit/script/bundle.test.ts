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

const importing = (name: string) => ({
  'project/package.json': '{}',
  'project/plugin.ts': `import '${name}'`,
})

/** What the bundle of the script of a project has, or the message of its refusal. */
async function bundled(files: Readonly<Record<string, string>>, read: string[] = []): Promise<string> {
  const script = join(folderWith(files), 'project/plugin.ts')
  try {
    return (await bundleScript(script, 'a test', (path) => read.push(path))).source
  } catch (error) {
    expect(error).toMatchObject({ code: 'WASM_SERVE_SCRIPT_INVALID' })
    return (error as Error).message
  }
}

test('a package may be installed above the project, but not beside it', async () => {
  const files = importing('installed')
  expect(await bundled({ ...files, 'node_modules/installed/index.js': 'globalThis.a = "above"' })).toContain(
    'above',
  )
  const elsewhere = importing('../beside/node_modules/installed/index.js')
  const refused = await bundled({ ...elsewhere, 'beside/node_modules/installed/index.js': '1' })
  expect(refused).toContain('which is not in its project')
})

test('a name that only begins with dots is in the project', async () => {
  const files = { ...importing('./..a/...b.ts'), 'project/..a/...b.ts': 'globalThis.a = "dots"' }
  expect(await bundled(files)).toContain('dots')
})

test('of a package it has what is for browsers, in production', async () => {
  const manifest = { main: 'main.js', browser: 'browser.js' }
  const source = await bundled({
    ...importing('b'),
    'project/node_modules/b/package.json': JSON.stringify(manifest),
    'project/node_modules/b/main.js': 'globalThis.a = "of Node.js"',
    'project/node_modules/b/browser.js': 'globalThis.a = "of browsers in " + process.env.NODE_ENV',
  })
  expect(source).toMatch(/of browsers in.*production/)
  expect(source).not.toContain('process.env')
})

test('its map leads to the lines of its files', async () => {
  const folder = folderWith({ ...importing('./a.ts'), 'project/a.ts': 'globalThis.a = 1' })
  const { map } = await bundleScript(join(folder, 'project/plugin.ts'), 'a test')
  expect(map).toEqual({ sources: ['a.ts'], mappings: expect.stringMatching(/\w/) })
})

test.each([
  ['fs', 'no Node.js API'],
  ['node:fs', 'no Node.js API'],
  ['no-such-package', 'there is no such file or package'],
  ['./no-such-file.ts', 'there is no such file or package'],
])('what it cannot import is named with its place: %s', async (name, reason) => {
  const message = await bundled(importing(name))
  expect(message).toContain('project/plugin.ts:1:8')
  expect(message).toContain(JSON.stringify(name))
  expect(message).toContain(reason)
})

test('a mistake in another file has the place in that file, and the file was read', async () => {
  const read: string[] = []
  const message = await bundled({ ...importing('./a.ts'), 'project/a.ts': '\n  const = 1' }, read)
  expect(message).toMatch(/project\/a\.ts:2:9/)
  expect(read).toEqual([expect.stringMatching(/project\/a\.ts$/)])
})

test('modules of wasm-serve stay imports', async () => {
  expect(await bundled(importing('wasm-serve:kv'))).toMatch(/import ["']wasm-serve:kv["']/)
})
