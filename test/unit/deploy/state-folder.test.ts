import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type Edits, NO_EDITS } from '../../../src/deploy/edits.ts'
import { editsInFolder } from '../../../src/deploy/state-folder.ts'

test('a server that shares its state folder with another writes nothing over what that one wrote', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-state-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const [one, other] = [editsInFolder(folder), editsInFolder(folder)]
  await one.read()
  await other.read()
  const without = (route: string): Edits => ({
    ...NO_EDITS,
    routes: new Map([[route, { options: undefined }]]),
  })
  const edits = without('a'.repeat(12))
  await one.write(edits, new Map())
  await expect(other.write(without('b'.repeat(12)), new Map())).rejects.toMatchObject({
    code: 'WASM_SERVE_STATE_UNWRITABLE',
    message: expect.stringContaining('another process'),
  })
  expect(await editsInFolder(folder).read()).toEqual(edits)
})
