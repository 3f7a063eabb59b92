;; Answers with how often this instance was called, as one byte: its global lives as long as the instance.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (global $calls (mut i32) (i32.const 0))
  (func (export "count") (result i32)
    (local $output i64)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (local.set $output (call $alloc (i64.const 1)))
    (call $store_u8 (local.get $output) (i32.add (i32.const 48) (global.get $calls)))
    (call $output_set (local.get $output) (i64.const 1))
    (i32.const 0))
  (func (export "trap") (result i32) (unreachable)))
