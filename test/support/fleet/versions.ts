import { guestBytes } from '../guest.ts'

/** The name of a version, which ends the answers of its module. */
export function versionName(version: number): string {
  return `v${String(version).padStart(7, '0')}`
}

/**
 * A module that answers with its input and the name of a version.
 *
 * @param pages - Of its own memory. Default: none.
 */
export function versionModule(version: number, pages?: number): Uint8Array {
  const name = Buffer.from(versionName(version)).readBigUInt64LE()
  const memory = pages === undefined ? '' : `(memory ${pages})`
  return guestBytes(`(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  ${memory}
  (func (export "handle") (result i32)
    (local $length i64) (local $output i64) (local $i i64)
    (local.set $length (call $input_length))
    (local.set $output (call $alloc (i64.add (local.get $length) (i64.const 8))))
    (block $done
      (loop $next
        (br_if $done (i64.ge_u (local.get $i) (local.get $length)))
        (call $store_u8
          (i64.add (local.get $output) (local.get $i))
          (call $input_load_u8 (local.get $i)))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $next)))
    (call $store_u64 (i64.add (local.get $output) (local.get $length)) (i64.const ${name}))
    (call $output_set (local.get $output) (i64.add (local.get $length) (i64.const 8)))
    (i32.const 0)))`)
}

/** The version in an answer to a body; undefined if it is no answer to it. */
export function versionIn(answer: string, body: string): number | undefined {
  if (!answer.startsWith(body)) return undefined
  const [, digits] = /^v(\d{7})$/.exec(answer.slice(body.length)) ?? []
  return digits === undefined ? undefined : Number(digits)
}
