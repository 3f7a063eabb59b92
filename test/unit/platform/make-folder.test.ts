import { chmodSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeFolder } from '../../../src/platform/make-folder.ts'
import { temporaryFolder } from '../../support/admin-api.ts'

test('a folder is made with its missing parents, which get its permissions; one that exists keeps its own', () => {
  const kept = temporaryFolder()
  chmodSync(kept, 0o755)
  const made = join(kept, 'a', 'b')
  makeFolder(made, 0o700)
  makeFolder(made, 0o500)
  const modes = [kept, join(kept, 'a'), made].map((folder) => statSync(folder).mode & 0o777)
  expect(modes).toEqual([0o755, 0o700, 0o700])
})

test('where a file is, no folder can be made, nor below it', () => {
  const file = join(temporaryFolder(), 'file')
  writeFileSync(file, '')
  const codes = [file, join(file, 'a'), join(file, 'a', 'b')].map((path) => {
    try {
      makeFolder(path)
    } catch (error) {
      return error instanceof Error && 'code' in error && error.code
    }
    return 'made'
  })
  const below = expect.stringMatching(/^(?:ENOTDIR|EEXIST)$/) // before and from Node.js 24 on
  expect(codes).toEqual(['EEXIST', below, below])
})

test.runIf(process.platform === 'linux')(
  'a folder that the system never makes is refused, not tried forever',
  () => {
    expect(() => makeFolder('/proc/none/a')).toThrow(expect.objectContaining({ code: 'ENOENT' }))
  },
)
