;; Counts its calls and exits.
;;
;; run: its output is the count, as a digit. With input it exits with the status that the first byte says, a digit; without,
;; it returns. fail: its input is its error, and it exits with 0.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input (param i64) (result i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (import "extism:host/env" "error_set" (func $error (param i64)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (global $calls (mut i32) (i32.const 0))
  (func (export "run") (result i32) (local $at i64)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (local.set $at (call $alloc (i64.const 1)))
    (call $store (local.get $at) (i32.add (i32.const 48) (global.get $calls)))
    (call $output (local.get $at) (i64.const 1))
    (if (i64.ne (call $input_length) (i64.const 0))
      (then (call $exit (i32.sub (call $input (i64.const 0)) (i32.const 48)))))
    (i32.const 0))
  (func (export "fail")
    (call $error (call $input_offset))
    (call $exit (i32.const 0))))
