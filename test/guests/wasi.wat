;; Writes to standard output, reads the clock, and with input ends its program with status 3.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\06\00\00\00")
  (data (i32.const 16) "hello\0a")
  (func (export "_initialize"))
  (func (export "wasi") (result i32)
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (if (i64.gt_u (call $input_length) (i64.const 0)) (then (call $proc_exit (i32.const 3))))
    (i32.const 0)))
