import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type CopiedState, lastCopyIn } from '../../../src/deploy/fleet/last-copy.ts'

const STATE: CopiedState = {
  fleet: 'a',
  revision: {
    revision: 3,
    id: 'r3',
    configuration: '0'.repeat(64),
    edits: '1'.repeat(64),
    by: 'me',
    at: '2026-01-02T03:04:05.678Z',
    reason: 'test',
  },
  configuration: 'c',
  edits: 'e',
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-copy-'))
  onTestFinished(() => rmSync(path, { recursive: true }))
  return path
}

test('a node reads the state that it has written last, and none where it has written nothing', async () => {
  const place = folder()
  expect(await lastCopyIn(place).read()).toBeUndefined()
  await lastCopyIn(place).write(STATE)
  expect(await lastCopyIn(place).read()).toEqual(STATE)
})

test('a state of another version is refused', async () => {
  const place = folder()
  await lastCopyIn(place).write(STATE)
  const file = join(place, 'fleet.json')
  writeFileSync(file, readFileSync(file, 'utf8').replace('"format":1', '"format":2'))
  await expect(lastCopyIn(place).read()).rejects.toMatchObject({ code: 'WASM_SERVE_STATE_INVALID' })
})
