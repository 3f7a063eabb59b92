import { expect, test } from 'vitest'
import { makeResettable } from '../../src/module/resettable.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { guestBytes } from '../support/guest.ts'
import { capped } from '../support/module-bytes.ts'

/* Modules of megabytes. */

test('a module whose resettable form is more than V8 accepts is served fresh all the same', async () => {
  const globals = '(global i32 (i32.const 0))'.repeat(1_000_000)
  const bytes = guestBytes(
    `(module (memory 1 9) ${globals} (func (export "size") (result i32) (memory.size)))`,
  )
  expect(WebAssembly.validate(bytes as Uint8Array<ArrayBuffer>)).toBe(true)
  const moduleLimits = { globals: 2_000_000 }
  const { resettable } = await loadPlugin(bytes, { isolation: 'fresh', moduleLimits })
  expect(resettable).toBeUndefined()
})

test('a module with writes in too many places can be renewed, but does not say what it wrote', async () => {
  const writes = '(i32.store (i32.const 0) (i32.const 0))'.repeat(200_000)
  const bytes = guestBytes(`(module (memory 10) (data (i32.const 524288) "d") (func ${writes}))`)
  const module = capped(bytes, 60_000)
  expect(makeResettable(module)).toBeUndefined()
  expect(makeResettable(module, 'nothing')?.records).toBe('nothing')
  const { resettable } = await loadPlugin(bytes, {
    isolation: 'fresh',
    moduleLimits: { optimisingCost: 10_000_000_000, allOptimisingCost: 10_000_000_000 },
  })
  expect(resettable?.records).toBe('nothing')
})
