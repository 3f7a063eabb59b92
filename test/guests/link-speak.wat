;; A linked module: makes the last byte of its number the output of the call that another module is in.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "speak") (param $byte i32)
    (local $block i64)
    (local.set $block (call $alloc (i64.const 1)))
    (call $store_u8 (local.get $block) (local.get $byte))
    (call $output_set (local.get $block) (i64.const 1)))
  (func (export "trap") (unreachable)))
