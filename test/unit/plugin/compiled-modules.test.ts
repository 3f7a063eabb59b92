import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { cachedModuleCount } from '../../../src/plugin/compiled-modules.ts'
import { loadPlugin } from '../../../src/plugin/plugin.ts'
import { guestBytes } from '../../support/guest.ts'
import { collectGarbage } from '../../support/heap.ts'

/** The same guest with another digest: a custom section of one letter and four bytes. */
function variant(number: number): Uint8Array {
  return Buffer.concat([guestBytes('echo'), Buffer.of(0, 6, 1, 0x78, number >> 8, number & 255, 0, 0)])
}

test('what is compiled is remembered while it is used, and forgotten when nothing uses it', async () => {
  const kept = await loadPlugin(variant(0))
  const before = cachedModuleCount()
  const load = async () => {
    for (let number = 1; number <= 50; number++) await loadPlugin(variant(number))
  }
  await load()
  expect(cachedModuleCount()).toBeGreaterThan(before)
  while (cachedModuleCount() > before) {
    collectGarbage()
    await sleep(1)
  }
  expect((await loadPlugin(variant(0))).module).toBe(kept.module)
  expect(cachedModuleCount()).toBeLessThanOrEqual(before)
})
