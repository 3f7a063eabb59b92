import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { areInstalled, type PackedPackage } from '../../../src/platform/packed-packages.ts'

/** The app requires a and b, and a requires b and c. */
const PACKED: readonly PackedPackage[] = [
  { name: 'app', version: '1.0.0', requires: [1, 2] },
  { name: 'a', version: '1.0.0', requires: [2, 3] },
  { name: 'b', version: '2.0.0', requires: [] },
  { name: '@scope/c', version: '3.0.0', requires: [] },
]

const HOISTED = { 'node_modules/a': '1.0.0', 'node_modules/b': '2.0.0', 'node_modules/@scope/c': '3.0.0' }

/** A folder with packages, versions by path. */
function folderWith(versions: Readonly<Record<string, string>>): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'wasm-serve-packed-')))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'node_modules/app'), { recursive: true })
  for (const [path, version] of Object.entries(versions)) {
    mkdirSync(join(folder, path), { recursive: true })
    writeFileSync(
      join(folder, path, 'package.json'),
      JSON.stringify({ name: path.split('node_modules/').at(-1), version }),
    )
  }
  return folder
}

test.each([
  ['beside the app', HOISTED, true],
  [
    'below the packages that require them',
    {
      'node_modules/a': '1.0.0',
      'node_modules/b': '2.0.0',
      'node_modules/a/node_modules/@scope/c': '3.0.0',
    },
    true,
  ],
  ['with another version of a package of the app', { ...HOISTED, 'node_modules/a': '1.0.1' }, false],
  ['with another version of a package of a package', { ...HOISTED, 'node_modules/@scope/c': '3.0.1' }, false],
  [
    'with another version for the app only',
    { ...HOISTED, 'node_modules/app/node_modules/a': '1.0.1' },
    false,
  ],
  [
    'with another version for a package only',
    { ...HOISTED, 'node_modules/a/node_modules/@scope/c': '3.0.1' },
    false,
  ],
  ['in two folders, with the same version', { ...HOISTED, 'node_modules/a/node_modules/b': '2.0.0' }, false],
  ['without one of them', { 'node_modules/a': '1.0.0', 'node_modules/b': '2.0.0' }, false],
])('packages are compared where Node.js finds them: %s', (_, versions, expected) => {
  expect(areInstalled(PACKED, join(folderWith(versions), 'node_modules/app'))).toBe(expected)
})

test('a folder without a package is passed over', () => {
  const folder = folderWith(HOISTED)
  mkdirSync(join(folder, 'node_modules/app/node_modules/a'), { recursive: true })
  expect(areInstalled(PACKED, join(folder, 'node_modules/app'))).toBe(true)
})

test('packages that are links, as pnpm installs them, require what is beside their files', () => {
  const stored = (version: string) => ({
    'store/app/node_modules/app': '1.0.0',
    'store/a/node_modules/a': '1.0.0',
    'store/a/node_modules/b': '2.0.0',
    'store/a/node_modules/@scope/c': version,
  })
  for (const [version, expected] of [
    ['3.0.0', true],
    ['3.0.1', false],
  ] as const) {
    const folder = folderWith(stored(version))
    const beside = join(folder, 'store/app/node_modules')
    for (const name of ['a', 'b']) symlinkSync(join(folder, 'store/a/node_modules', name), join(beside, name))
    expect(areInstalled(PACKED, join(beside, 'app'))).toBe(expected)
  }
})
