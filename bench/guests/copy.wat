;; Copies its input, of a multiple of 8 bytes, into a block of its own, 8 bytes at a time: the cost of the ABI itself.
(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u64" (func $input_load_u64 (param i64) (result i64)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "copy") (result i32)
    (local $length i64) (local $at i64) (local $i i64)
    (local.set $length (call $input_length))
    (local.set $at (call $alloc (local.get $length)))
    (loop $next
      (call $store_u64 (i64.add (local.get $at) (local.get $i)) (call $input_load_u64 (local.get $i)))
      (local.set $i (i64.add (local.get $i) (i64.const 8)))
      (br_if $next (i64.lt_u (local.get $i) (local.get $length))))
    (call $output_set (local.get $at) (local.get $length))
    (i32.const 0)))
