;; Answers with bytes that are no text.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "bytes") (result i32)
    (local $output i64)
    (local.set $output (call $alloc (i64.const 8)))
    (call $store_u64 (local.get $output) (i64.const 0x00fffefdfc808182))
    (call $output_set (local.get $output) (i64.const 8))
    (i32.const 0)))
