;; Does with WASI what the first byte of its input says; then it echoes.
;;   e: ends its program with 3
;;   i: traps unless its standard input is at its end
;;   p: polls the monotonic clock for 30 s
;;   v: traps if it finds an environment variable
(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $is (param $letter i32) (result i32)
    (if (result i32) (i64.eqz (call $input_length))
      (then (i32.const 0))
      (else (i32.eq (call $input_load_u8 (i64.const 0)) (local.get $letter)))))
  (func $trap_unless (param i32) (if (i32.eqz (local.get 0)) (then (unreachable))))
  (func (export "run") (result i32)
    (if (call $is (i32.const 101)) (then (call $exit (i32.const 3))))
    (if (call $is (i32.const 105))
      (then
        (i32.store (i32.const 0) (i32.const 256)) ;; one place for 100 bytes
        (i32.store (i32.const 4) (i32.const 100))
        (i32.store (i32.const 8) (i32.const -1))
        (call $trap_unless (i32.eqz (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8))))
        (call $trap_unless (i32.eqz (i32.load (i32.const 8))))))
    (if (call $is (i32.const 112))
      (then
        (i32.store (i32.const 16) (i32.const 1)) ;; the monotonic clock
        (i64.store (i32.const 24) (i64.const 30000000000))
        (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))))
    (if (call $is (i32.const 118))
      (then
        (call $trap_unless (i32.eqz (call $environ (i32.const 0) (i32.const 4))))
        (call $trap_unless (i32.eqz (i32.load (i32.const 0))))))
    (call $output_set (call $input_offset) (call $input_length))
    (i32.const 0)))
