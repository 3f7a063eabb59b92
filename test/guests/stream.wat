;; A guest that reads its request and writes its answer piece by piece.
;;
;; echo: sends each piece of the body back. swallow: reads all, and answers with the number of bytes in decimal. head:
;; starts an answer with the first piece of the body as its head; if that is refused, answers 202 and the code. tell: sends
;; each piece of the body, which is the JSON of an event; a piece that begins with "!" makes it loop.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "free" (func $free (param i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (import "wasm-serve:http" "request_read" (func $read (param i64) (result i64)))
  (import "wasm-serve:http" "response_start" (func $start (param i64) (result i64)))
  (import "wasm-serve:http" "response_write" (func $write (param i64) (result i64)))
  (import "wasm-serve:http" "sse" (func $sse (param i64) (result i64)))
  (import "extism:host/env" "load_u8" (func $load (param i64) (result i32)))
  (func (export "echo") (result i32) (local $at i64) (local $code i64)
    (local.set $code (call $start (i64.const 0)))
    (if (i64.lt_s (local.get $code) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $code)))))
    (block $done
      (loop $next
        (local.set $at (call $read (i64.const 262144)))
        (br_if $done (i64.eqz (local.get $at)))
        (if (i64.lt_s (local.get $at) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $at)))))
        (local.set $code (call $write (local.get $at)))
        (if (i64.lt_s (local.get $code) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $code)))))
        (br $next)))
    (i32.const 0))
  (func (export "tell") (result i32) (local $at i64) (local $code i64)
    (block $done
      (loop $next
        (local.set $at (call $read (i64.const 262144)))
        (br_if $done (i64.eqz (local.get $at)))
        (if (i64.lt_s (local.get $at) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $at)))))
        (if (i32.eq (call $load (local.get $at)) (i32.const 33)) (then (loop $for_ever (br $for_ever))))
        (local.set $code (call $sse (local.get $at)))
        (if (i64.lt_s (local.get $code) (i64.const 0)) (then (return (i32.wrap_i64 (local.get $code)))))
        (br $next)))
    (i32.const 0))
  (func (export "swallow") (result i32) (local $at i64) (local $sum i64) (local $digit i64)
    (block $done
      (loop $next
        (local.set $at (call $read (i64.const 262144)))
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
    (i32.const 0))
  (func $block (param $from i32) (param $bytes i64) (result i64) (local $at i64) (local $i i64)
    (local.set $at (call $alloc (local.get $bytes)))
    (loop $next
      (call $store (i64.add (local.get $at) (local.get $i))
        (i32.load8_u (i32.add (local.get $from) (i32.wrap_i64 (local.get $i)))))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (br_if $next (i64.lt_u (local.get $i) (local.get $bytes))))
    (local.get $at))
  (memory 1)
  (data (i32.const 0) "{\22status\22:202}-0")
  (func (export "head") (result i32) (local $code i64)
    (local.set $code (call $start (call $read (i64.const 131072))))
    (if (i64.lt_s (local.get $code) (i64.const 0)) (then
      (drop (call $start (call $block (i32.const 0) (i64.const 14))))
      (i32.store8 (i32.const 15) (i32.sub (i32.const 48) (i32.wrap_i64 (local.get $code))))
      (drop (call $write (call $block (i32.const 14) (i64.const 2))))))
    (i32.const 0)))
