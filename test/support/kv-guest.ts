import { guestBytes } from './guest.ts'

/** Length of the key at the start of the input of `set` and `write`. */
export const KEY_LENGTH = 8

/** Functions of the store, and the guest's exports that call them. */
const IMPORTS = {
  get: '(import "wasm-serve:kv" "get" (func $get (param i64) (result i64)))',
  set: '(import "wasm-serve:kv" "set" (func $set (param i64 i64 i64) (result i64)))',
  list: '(import "wasm-serve:kv" "list" (func $list (param i64 i64 i64) (result i64)))',
  kv_read: '(import "extism:host/user" "kv_read" (func $kv_read (param i64) (result i64)))',
  kv_write: '(import "extism:host/user" "kv_write" (func $kv_write (param i64 i64)))',
}

const EXPORTS: Readonly<Record<keyof typeof IMPORTS, string>> = {
  // The value of a key. Without a key: how many calls this instance has had, as a byte.
  get: `(func (export "get") (result i32) (local $b i64)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (if (result i32) (i64.eqz (call $length_in)) (then
      (local.set $b (call $alloc (i64.const 1)))
      (call $store (local.get $b) (global.get $calls))
      (call $tell (local.get $b)))
    (else (call $tell (call $get (call $all))))))`,
  // A key and its value.
  set: `(func (export "set") (result i32)
    (call $tell (call $set (call $key) (call $value) (i64.const 0))))
  ;; Writes a value of one letter again and again, then one of the next, and so on.
  (func (export "storm") (local $key i64) (local $value i64) (local $letter i32) (local $i i64)
    (local.set $key (call $all))
    (local.set $value (call $alloc (i64.const 50000)))
    (loop $again
      (local.set $letter (i32.rem_u (i32.add (local.get $letter) (i32.const 1)) (i32.const 26)))
      (local.set $i (i64.const 0))
      (loop $next
        (call $store (i64.add (local.get $value) (local.get $i)) (i32.add (local.get $letter) (i32.const 97)))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br_if $next (i64.lt_u (local.get $i) (i64.const 50000))))
      (drop (call $set (local.get $key) (local.get $value) (i64.const 0)))
      (br $again)))`,
  list: `(func (export "list") (result i32)
    (call $tell (call $list (call $all) (i64.const 0) (i64.const 1000))))`,
  kv_read: '(func (export "read") (result i32) (call $tell (call $kv_read (call $all))))',
  kv_write: '(func (export "write") (call $kv_write (call $key) (call $value)))',
}

/** A guest that calls these functions of the store; one that answers less than 0 is the code that its export returns. */
export function kvGuest(...names: (keyof typeof IMPORTS)[]): Uint8Array {
  return guestBytes(`(module
  ${names.map((name) => IMPORTS[name]).join('\n')}
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "input_length" (func $length_in (result i64)))
  (import "extism:host/env" "input_load_u8" (func $in (param i64) (result i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (global $calls (mut i32) (i32.const 0))
  ;; A block with a part of the input.
  (func $part (param $from i64) (param $to i64) (result i64) (local $b i64) (local $i i64)
    (local.set $b (call $alloc (i64.sub (local.get $to) (local.get $from))))
    (local.set $i (local.get $from))
    (block $done (loop $next
      (br_if $done (i64.ge_u (local.get $i) (local.get $to)))
      (call $store (i64.add (local.get $b) (i64.sub (local.get $i) (local.get $from))) (call $in (local.get $i)))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (br $next)))
    (local.get $b))
  (func $all (result i64) (call $part (i64.const 0) (call $length_in)))
  (func $key (result i64) (call $part (i64.const 0) (i64.const ${KEY_LENGTH})))
  (func $value (result i64) (call $part (i64.const ${KEY_LENGTH}) (call $length_in)))
  ;; Outputs a block, or returns a code.
  (func $tell (param $code i64) (result i32)
    (if (i64.lt_s (local.get $code) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $code)))))
    (if (i64.gt_s (local.get $code) (i64.const 0))
      (then (call $output (local.get $code) (call $length (local.get $code)))))
    (i32.const 0))
  ${names.map((name) => EXPORTS[name]).join('\n')})`)
}
