;; Answers with the config value `answer`, whatever it is asked; says no with its input if there is none.
(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "config_get" (func $config_get (param i64) (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "extism:host/env" "error_set" (func $error_set (param i64)))
  (memory 1)
  (data (i32.const 0) "answer")
  (func (export "answer") (result i32)
    (local $key i64) (local $i i32) (local $value i64)
    (local.set $key (call $alloc (i64.const 6)))
    (loop $next
      (call $store_u8
        (i64.add (local.get $key) (i64.extend_i32_u (local.get $i)))
        (i32.load8_u (local.get $i)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (i32.const 6))))
    (local.set $value (call $config_get (local.get $key)))
    (if (i64.eqz (local.get $value))
      (then
        (call $error_set (call $input_offset))
        (return (i32.const 1))))
    (call $output_set (local.get $value) (call $length (local.get $value)))
    (i32.const 0)))
