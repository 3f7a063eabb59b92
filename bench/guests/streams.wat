;; count: reads a body and answers with its size in decimal. download: sends 1 MiB of zeros for each byte of its body.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (import "wasm-serve:http" "request_read" (func $read (param i64) (result i64)))
  (import "wasm-serve:http" "response_start" (func $start (param i64) (result i64)))
  (import "wasm-serve:http" "response_write" (func $write (param i64) (result i64)))
  ;; The size of the body; -1 if it ended early.
  (func $size (result i64) (local $at i64) (local $sum i64)
    (loop $next
      (local.set $at (call $read (i64.const 262144)))
      (if (i64.lt_s (local.get $at) (i64.const 0)) (then (return (i64.const -1))))
      (if (i64.gt_s (local.get $at) (i64.const 0)) (then
        (local.set $sum (i64.add (local.get $sum) (call $length (local.get $at))))
        (br $next))))
    (local.get $sum))
  (func (export "count") (result i32) (local $sum i64) (local $at i64) (local $digit i64)
    (local.set $sum (call $size))
    (local.set $at (call $alloc (i64.const 20)))
    (local.set $digit (i64.const 20))
    (loop $more
      (local.set $digit (i64.sub (local.get $digit) (i64.const 1)))
      (call $store (i64.add (local.get $at) (local.get $digit))
        (i32.wrap_i64 (i64.add (i64.const 48) (i64.rem_u (local.get $sum) (i64.const 10)))))
      (local.set $sum (i64.div_u (local.get $sum) (i64.const 10)))
      (br_if $more (i64.ne (local.get $sum) (i64.const 0))))
    (call $output (i64.add (local.get $at) (local.get $digit)) (i64.sub (i64.const 20) (local.get $digit)))
    (i32.const 0))
  (func (export "download") (result i32) (local $left i64)
    (local.set $left (i64.mul (call $size) (i64.const 16)))
    (drop (call $start (i64.const 0)))
    (loop $next
      (if (i64.lt_s (call $write (call $alloc (i64.const 65536))) (i64.const 0)) (then (return (i32.const 1))))
      (local.set $left (i64.sub (local.get $left) (i64.const 1)))
      (br_if $next (i64.gt_s (local.get $left) (i64.const 0))))
    (i32.const 0)))
