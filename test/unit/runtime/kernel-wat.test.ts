import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import loadWabt from 'wabt'

test.each([
  ['kernel', 'module'],
  ['json-scan', 'contract'],
  ['deferred-input', 'extism'],
])('%s.wasm is what its text assembles to', async (name, room) => {
  const wabt = await loadWabt()
  const folder = new URL(`../../../src/${room}/`, import.meta.url)
  const module = wabt.parseWat(`${name}.wat`, readFileSync(new URL(`${name}.wat`, folder), 'utf8'))
  const { buffer } = module.toBinary({ write_debug_names: true })
  expect(Buffer.compare(buffer, readFileSync(new URL(`${name}.wasm`, folder)))).toBe(0)
})
