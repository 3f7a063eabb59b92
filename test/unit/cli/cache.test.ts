import { mkdtempSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openContentCache } from '../../../src/plugin/source/content-cache.ts'
import { sha256 } from '../../../src/plugin/source/digest.ts'
import { run } from '../../support/cli.ts'

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-cache-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const list = async (folder: string) =>
  (await run(['cache', 'list', '--cache-folder', folder])).stdout.trimEnd().split('\n')

test('an empty cache was never used', async () => {
  const lines = await list(newFolder())
  expect(lines.at(-1)?.trim()).toMatch(/^all +0 files +0$/)
})

test('the sum was used when its last file was', async () => {
  const folder = newFolder()
  const cache = openContentCache(folder, [])
  for (const [text, at] of [
    ['one', '2026-01-02T03:04:05Z'],
    ['second', '2026-02-03T04:05:06Z'],
    ['third', '2026-01-01T00:00:00Z'],
  ] as const) {
    const digest = sha256(Buffer.from(text))
    await cache.write(digest, Buffer.from(text))
    utimesSync(join(folder, 'sha256', digest), new Date(at), new Date(at))
  }
  const lines = await list(folder)
  expect(lines.find((line) => line.includes(sha256(Buffer.from('one'))))).toMatch(/ 3 +2026-01-02 03:04$/)
  expect(lines.at(-1)?.trim()).toMatch(/^all +3 files +14 +2026-02-03 04:05$/)
})
