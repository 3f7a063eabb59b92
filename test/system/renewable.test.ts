import { expect, test } from 'vitest'
import { makeRenewable } from '../../src/module/renewable.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { guestBytes } from '../support/guest.ts'
import { capped } from '../support/module-bytes.ts'

/* Modules of megabytes. */

test('a module whose renewable form is more than V8 accepts is served fresh all the same', async () => {
  const globals = '(global i32 (i32.const 0))'.repeat(1_000_000)
  const bytes = guestBytes(
    `(module (memory 1 9) ${globals} (func (export "size") (result i32) (memory.size)))`,
  )
  expect(WebAssembly.validate(bytes as Uint8Array<ArrayBuffer>)).toBe(true)
  const moduleLimits = { globals: 2_000_000 }
  const { renewable } = await loadPlugin(bytes, { isolation: 'fresh', moduleLimits })
  expect(renewable).toBeUndefined()
})

test('a module with writes in too many places can be renewed, but does not say what it wrote', async () => {
  const writes = '(i32.store (i32.const 0) (i32.const 0))'.repeat(200_000)
  const bytes = guestBytes(`(module (memory 10) (data (i32.const 524288) "d") (func ${writes}))`)
  const module = capped(bytes, 60_000)
  expect(makeRenewable(module, true)).toBeUndefined()
  expect(makeRenewable(module, false)?.untrackedFrom).toBe(0)
  const { renewable } = await loadPlugin(bytes, { isolation: 'fresh' })
  expect(renewable?.untrackedFrom).toBe(0)
})
