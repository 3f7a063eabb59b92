;; Copies its input into a block of its own, 8 bytes at a time: the cost of the ABI itself.
(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u64" (func $input_load_u64 (param i64) (result i64)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "copy") (result i32)
    (local $length i64) (local $at i64) (local $i i64)
    (local.set $length (call $input_length))
    (local.set $at (call $alloc (local.get $length)))
    (block $words_end
      (loop $words
        (br_if $words_end (i64.gt_u (i64.add (local.get $i) (i64.const 8)) (local.get $length)))
        (call $store_u64 (i64.add (local.get $at) (local.get $i)) (call $input_load_u64 (local.get $i)))
        (local.set $i (i64.add (local.get $i) (i64.const 8)))
        (br $words)))
    (block $bytes_end
      (loop $bytes
        (br_if $bytes_end (i64.ge_u (local.get $i) (local.get $length)))
        (call $store_u8 (i64.add (local.get $at) (local.get $i)) (call $input_load_u8 (local.get $i)))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $bytes)))
    (call $output_set (local.get $at) (local.get $length))
    (i32.const 0)))
