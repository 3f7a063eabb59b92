;; Answers with what is in the file that its input names, in the first folder it was given; else with "errno N".
(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "errno ")
  (func $copy_in
    (local $i i64)
    (block $done
      (loop $next
        (br_if $done (i64.ge_u (local.get $i) (call $input_length)))
        (i32.store8 offset=1024 (i32.wrap_i64 (local.get $i)) (call $input_load_u8 (local.get $i)))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $next))))
  (func $copy_out (param $from i32) (param $n i32)
    (local $at i64) (local $i i32)
    (local.set $at (call $alloc (i64.extend_i32_u (local.get $n))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
        (call $store_u8 (i64.add (local.get $at) (i64.extend_i32_u (local.get $i)))
          (i32.load8_u (i32.add (local.get $from) (local.get $i))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (call $output_set (local.get $at) (i64.extend_i32_u (local.get $n))))
  (func $fail (param $errno i32)
    (i32.store8 (i32.const 70) (i32.add (i32.const 48) (i32.div_u (local.get $errno) (i32.const 10))))
    (i32.store8 (i32.const 71) (i32.add (i32.const 48) (i32.rem_u (local.get $errno) (i32.const 10))))
    (call $copy_out (i32.const 64) (i32.const 8)))
  (func (export "read") (result i32)
    (local $errno i32)
    (call $copy_in)
    (local.set $errno
      (call $path_open (i32.const 3) (i32.const 1) (i32.const 1024) (i32.wrap_i64 (call $input_length))
        (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0)))
    (if (local.get $errno) (then (call $fail (local.get $errno)) (return (i32.const 0))))
    (i32.store (i32.const 8) (i32.const 4096)) ;; one buffer, of 4 KiB
    (i32.store (i32.const 12) (i32.const 4096))
    (local.set $errno (call $fd_read (i32.load (i32.const 0)) (i32.const 8) (i32.const 1) (i32.const 16)))
    (if (local.get $errno) (then (call $fail (local.get $errno)) (return (i32.const 0))))
    (call $copy_out (i32.const 4096) (i32.load (i32.const 16)))
    (i32.const 0)))
