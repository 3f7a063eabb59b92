import { chmodSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { FileSnapshot } from '../../../src/deploy/file-snapshot.ts'

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-files-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

test.each<[string, (path: string) => void]>([
  ['becomes readable', (path) => chmodSync(path, 0o644)],
  ['is removed', (path) => rmSync(path)],
  [
    'is replaced by one of the same size',
    (path) => {
      writeFileSync(`${path}.new`, 'a')
      renameSync(`${path}.new`, path)
    },
  ],
  [
    'becomes a link to itself',
    (path) => {
      rmSync(path)
      symlinkSync(path, path)
    },
  ],
])('a file that %s has changed', (_, change) => {
  const path = join(folder(), 'a.wasm')
  writeFileSync(path, 'a', { mode: 0o600 })
  const files = new FileSnapshot()
  files.note(path)
  expect(files.changed()).toEqual([])
  change(path)
  expect(files.changed()).toEqual([path])
  const after = new FileSnapshot()
  after.note(path)
  expect([after.changed(), after.youngerThan(-1)]).toEqual([[], []])
})
