;; A guest that reads its request and writes its answer piece by piece.
;;
;; echo: sends each piece of the body back. swallow: reads all, and answers with the number of bytes in decimal. script:
;; runs the operations of its body, each a line (see test/support/stream-guest.ts), and logs each result.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "free" (func $free (param i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (import "wasm-serve:http" "request_read" (func $read (param i64) (result i64)))
  (import "wasm-serve:http" "response_start" (func $start (param i64) (result i64)))
  (import "wasm-serve:http" "response_write" (func $write (param i64) (result i64)))
  (func (export "echo") (result i32) (local $at i64) (local $code i64)
    (local.set $code (call $start (i64.const 0)))
    (if (i64.lt_s (local.get $code) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $code)))))
    (block $done
      (loop $next
        (local.set $at (call $read (i64.const 65536)))
        (br_if $done (i64.eqz (local.get $at)))
        (if (i64.lt_s (local.get $at) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $at)))))
        (local.set $code (call $write (local.get $at)))
        (if (i64.lt_s (local.get $code) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $code)))))
        (br $next)))
    (i32.const 0))
  (func (export "swallow") (result i32) (local $at i64) (local $sum i64) (local $digit i64)
    (block $done
      (loop $next
        (local.set $at (call $read (i64.const 65536)))
        (br_if $done (i64.eqz (local.get $at)))
        (if (i64.lt_s (local.get $at) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $at)))))
        (local.set $sum (i64.add (local.get $sum) (call $length (local.get $at))))
        (br $next)))
    (local.set $at (call $alloc (i64.const 20)))
    (local.set $digit (i64.const 20))
    (loop $more
      (local.set $digit (i64.sub (local.get $digit) (i64.const 1)))
      (call $store (i64.add (local.get $at) (local.get $digit))
        (i32.wrap_i64 (i64.add (i64.const 48) (i64.rem_u (local.get $sum) (i64.const 10)))))
      (local.set $sum (i64.div_u (local.get $sum) (i64.const 10)))
      (br_if $more (i64.ne (local.get $sum) (i64.const 0))))
    (call $output (i64.add (local.get $at) (local.get $digit)) (i64.sub (i64.const 20) (local.get $digit)))
    (i32.const 0)))
