import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { guestBytes } from '../support/guest.ts'

/** More than are loaded eagerly. */
const COUNT = 1_100

test('a folder of many plug-ins is served, each with its own answer', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-lazy-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (let i = 0; i < COUNT; i++) writeFileSync(join(folder, `p${i}.wasm`), moduleNumber(i))
  const url = await start([folder, '--port', '0', '--log-level', 'silent']).listening()
  const answers = await Promise.all(
    Array.from({ length: COUNT }, async (_, i) =>
      (await fetch(`${url}/p${i}`, { method: 'POST', body: `${i}` })).text(),
    ),
  )
  expect(answers).toEqual(Array.from({ length: COUNT }, (_, i) => `${i}`))
})

/** Distinct modules that echo. */
function moduleNumber(number: number): Uint8Array {
  const name = Buffer.from(`n${number}`)
  const custom = [0, name.length + 1, name.length, ...name]
  return Buffer.concat([guestBytes('echo'), Uint8Array.from(custom)])
}
