import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { pluginOfFile } from '../../../src/plugin/source/script-source.ts'

/** A folder with these files. */
function folderWith(files: Readonly<Record<string, string | Uint8Array>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-script-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

/** Makes a plug-in of the first of these files. */
async function make(files: Readonly<Record<string, string | Uint8Array>>, isAlone = false) {
  const folder = folderWith(files)
  const [name = ''] = Object.keys(files)
  const path = join(folder, name)
  const read: string[] = []
  const made = await pluginOfFile(path, readFileSync(path), {
    isAlone,
    onFile: (file) => read.push(file),
  }).then(
    (bytes) => ({ bytes, error: undefined }),
    (error: Error & { code?: string }) => ({ bytes: undefined, error }),
  )
  const relative = (text = '') => text.replaceAll(`${folder}/`, '')
  return {
    isMade: made.bytes !== undefined && WebAssembly.validate(Buffer.from(made.bytes)),
    code: made.error?.code,
    message: relative(made.error?.message),
    read: read.map(relative),
  }
}

const INVALID = 'WASM_SERVE_SCRIPT_INVALID'
const FINE = 'export const f = () => 1'

test.each([
  ['JavaScript', { 'a.js': FINE }],
  ['CommonJS', { 'a.cjs': 'module.exports = { f: () => 1 }' }],
])('%s alone is a plug-in', async (_, files) => {
  expect(await make(files)).toEqual({ isMade: true, code: undefined, message: '', read: [] })
  expect((await make(files, true)).isMade).toBe(true)
})

test('TypeScript is one, too', async () => {
  expect(await make({ 'a.ts': 'export const f = (a: string): string => a' })).toMatchObject({ isMade: true })
})

test.each([
  ['a file', "import { a } from './lib/b.js'\nexport const f = () => a", 'lib/b.js'],
  ['a file that is imported when it runs', "export const f = () => import('./lib/b.js')", 'lib/b.js'],
])('what a script needs of %s is in its plug-in, unless its signature has to cover it', async (_, text, other) => {
  const files = { 'a.js': text, [other]: 'export const a = 1' }
  const { isMade, read } = await make(files)
  expect([isMade, read]).toEqual([true, expect.arrayContaining([other])])
  expect(await make(files, true)).toMatchObject({
    code: INVALID,
    message: expect.stringContaining('its digest or signature covers this file only'),
  })
})

test.each<[string, Record<string, string | Uint8Array>, place: RegExp]>([
  [
    'its own line',
    { 'a.js': 'const a = 1\nthrow new Error("no")' },
    / a\.js:2:\d+ cannot be used: Error: no$/,
  ],
  [
    'the line of a file that it imports',
    { 'a.js': "import './lib/b.js'\n", 'lib/b.js': 'export const a = 1\n\nthrow new Error("no")' },
    / lib\/b\.js:3:\d+ cannot be used: Error: no$/,
  ],
  ['the syntax', { 'a.js': 'const a = 1\nexport const f = (' }, / a\.js:2:\d+ cannot be used: SyntaxError/],
  [
    'an await outside of async functions',
    { 'a.js': 'export function f() {\n  await g()\n}' },
    / a\.js:2:\d+ .*; "await" needs a function that is declared "async"$/,
  ],
  [
    'a file that is not there',
    { 'a.js': "const a = 1\nimport './nowhere.js'" },
    / a\.js:2:\d+ .*"\.\/nowhere\.js": there is no such file or package/,
  ],
  [
    'a module of Node.js',
    { 'a.js': "import { readFileSync } from 'fs'\nexport const f = () => readFileSync" },
    / a\.js:1:\d+ .*"fs": plug-ins have no Node\.js API$/,
  ],
  ['bytes that are no text', { 'a.js': Uint8Array.of(0xff) }, / a\.js cannot be used: it is not UTF-8 text$/],
  [
    'a host function of an unknown type',
    { 'a.js': FINE, 'a.d.ts': 'declare module "extism:host" {\n interface user { g(a: string): I32 }\n}' },
    / a\.d\.ts:2:\d+ cannot be used: /,
  ],
])('a script that cannot be used is refused with %s', async (_, files, place) => {
  expect(await make(files)).toMatchObject({
    isMade: false,
    code: INVALID,
    message: expect.stringMatching(place),
  })
})
