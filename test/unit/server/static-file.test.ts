import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { FD_FOLDER } from '../../../src/platform/descriptors.ts'
import { openBelow } from '../../../src/server/edge/open-below.ts'

function makeFolder() {
  const root = fs.mkdtempSync(join(tmpdir(), 'static-file-'))
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }))
  const folder = join(root, 'site')
  fs.mkdirSync(join(folder, 'sub'), { recursive: true })
  fs.mkdirSync(`${folder}-2`)
  for (const name of ['secret', 'site-2/secret']) fs.writeFileSync(join(root, name), 'SECRET')
  for (const name of ['file', 'sub/file']) fs.writeFileSync(join(folder, name), 'hello')
  const links = { out: '../secret', beside: '../site-2', 'sub/up': '../file', down: 'sub' }
  for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, join(folder, name))
  return folder
}

describe.each([
  ['by descriptor', FD_FOLDER],
  ['by path', '/no/such/folder'],
])('%s', (_name, fdFolder) => {
  test.each([['file'], ['sub/file'], ['sub/up'], ['down/file']])('%s is opened', async (path) => {
    const entry = await openBelow(makeFolder(), path.split('/'), fdFolder)
    expect(entry && fs.readFileSync(entry.path, 'utf8')).toBe('hello')
    expect(entry?.stat.isFile()).toBe(true)
    await entry?.handle.close()
  })

  test.each([
    ['out'],
    ['beside'],
    ['beside/secret'],
    ['none'],
    ['file/none'],
    ['x'.repeat(300)],
  ])('%s is not', async (path) => {
    expect(await openBelow(makeFolder(), path.split('/'), fdFolder)).toBeUndefined()
  })

  test('the folder is below itself', async () => {
    const entry = await openBelow(makeFolder(), [], fdFolder)
    expect(entry?.stat.isDirectory()).toBe(true)
    await entry?.handle.close()
  })
})
