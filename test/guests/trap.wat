;; Traps two functions deep, but for the input "ok", which it echoes.
(module $guest
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func $inner (unreachable))
  (func $outer (call $inner))
  (func $trap (export "trap") (result i32)
    (if (i64.ne (call $input_length) (i64.const 2)) (then (call $outer)))
    (call $output_set (call $input_offset) (call $input_length))
    (i32.const 0)))
