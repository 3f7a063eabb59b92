import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { file, guestBytes } from '../support/guest.ts'

const MIB = 1_048_576

/** A guest that touches 32 MiB of blocks, answers eight bytes of them, and then ends in this way. */
function guestOf(end: string): Uint8Array {
  return guestBytes(`(module
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u64" (func $store (param i64 i64)))
    (import "extism:host/env" "output_set" (func $output (param i64 i64)))
    (func (export "run") (result i32) (local $at i64) (local $end i64)
      (local.set $at (call $alloc (i64.const ${32 * MIB})))
      (local.set $end (i64.add (local.get $at) (i64.const ${32 * MIB - 8})))
      (call $output (local.get $at) (i64.const 8))
      (loop $next
        (call $store (local.get $at) (i64.const 0x4141414141414141))
        (local.set $at (i64.add (local.get $at) (i64.const 4096)))
        (br_if $next (i64.lt_u (local.get $at) (local.get $end))))
      ${end}))`)
}

test.skipIf(process.platform !== 'linux').each([
  ['fresh instances', '(i32.const 0)', ['--isolation', 'fresh'], 200],
  ['instances that are replaced after each call', '(i32.const 0)', ['--recycle', '1'], 200],
  ['guests that trap', 'unreachable', [], 500],
  [
    'threads that are ended',
    '(loop $ever (br $ever)) unreachable',
    ['--interrupts', 'off', '--timeout', '50'],
    504,
  ],
] as const)('%s with large blocks leave no memory behind in threads', async (_what, end, flags, status) => {
  const plugin = file('large.wasm', guestOf(end))
  const server = start([plugin, '0', '--workers', '1', ...flags])
  const url = await server.listening()
  for (let call = 0; call < 80; call++) {
    const response = await fetch(url, { method: 'POST', body: `${call}` })
    const text = await response.text()
    expect(response.status).toBe(status)
    if (status === 200) expect(text).toBe('AAAAAAAA')
  }
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))?.[1]
  expect(Number(peak) / 1_024).toBeLessThan(1_024) // 80 memories have 2,600 MiB
})
