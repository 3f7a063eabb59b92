import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import loadWabt from 'wabt'

test('kernel.wasm is what kernel.wat assembles to', async () => {
  const wabt = await loadWabt()
  const folder = new URL('../../src/runtime/', import.meta.url)
  const module = wabt.parseWat('kernel.wat', readFileSync(new URL('kernel.wat', folder), 'utf8'))
  const { buffer } = module.toBinary({ write_debug_names: true })
  expect(Buffer.compare(buffer, readFileSync(new URL('kernel.wasm', folder)))).toBe(0)
})
