;; Answers with its input in ASCII upper case, byte by byte through a block of its own.
(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "upper") (result i32)
    (local $length i64) (local $output i64) (local $i i64) (local $byte i32)
    (local.set $length (call $input_length))
    (local.set $output (call $alloc (local.get $length)))
    (block $done
      (loop $next
        (br_if $done (i64.ge_u (local.get $i) (local.get $length)))
        (local.set $byte (call $input_load_u8 (local.get $i)))
        (if (i32.lt_u (i32.sub (local.get $byte) (i32.const 97)) (i32.const 26))
          (then (local.set $byte (i32.sub (local.get $byte) (i32.const 32)))))
        (call $store_u8 (i64.add (local.get $output) (local.get $i)) (local.get $byte))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $next)))
    (call $output_set (local.get $output) (local.get $length))
    (i32.const 0)))
