;; Allocates 100 bytes, writes all of them and names only five, from the second on.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "short") (result i32)
    (local $output i64) (local $i i64)
    (local.set $output (call $alloc (i64.const 100)))
    (loop $next
      (call $store_u8 (i64.add (local.get $output) (local.get $i)) (i32.add (i32.const 48) (i32.wrap_i64 (local.get $i))))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (br_if $next (i64.lt_u (local.get $i) (i64.const 70))))
    (call $output_set (i64.add (local.get $output) (i64.const 1)) (i64.const 5))
    (i32.const 0)))
