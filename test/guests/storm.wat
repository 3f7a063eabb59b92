;; Streams, and fails in the ways that the first byte of the body says. Its answer always has the bytes of its own body.
;;
;; E: ten events with the first piece of the body as data. L: sends the first piece, and never returns. T: sends the first
;; piece, and traps. Anything else: sends each piece back.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "load_u8" (func $load (param i64) (result i32)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "wasm-serve:http" "request_read" (func $read (param i64) (result i64)))
  (import "wasm-serve:http" "response_start" (func $start (param i64) (result i64)))
  (import "wasm-serve:http" "response_write" (func $write (param i64) (result i64)))
  (import "wasm-serve:http" "response_flush" (func $flush (result i64)))
  (import "wasm-serve:http" "sse" (func $sse (param i64) (result i64)))
  (import "wasm-serve:http" "wait" (func $wait (param i64) (result i64)))
  (memory 1)
  (data (i32.const 0) "{\22data\22:\22")
  ;; {"data":"..."} with the bytes of a block.
  (func $event (param $piece i64) (result i64) (local $size i64) (local $at i64) (local $i i64)
    (local.set $size (call $length (local.get $piece)))
    (local.set $at (call $alloc (i64.add (local.get $size) (i64.const 11))))
    (loop $next
      (call $store (i64.add (local.get $at) (local.get $i)) (i32.load8_u (i32.wrap_i64 (local.get $i))))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (br_if $next (i64.lt_u (local.get $i) (i64.const 9))))
    (local.set $i (i64.const 0))
    (loop $next
      (call $store
        (i64.add (i64.add (local.get $at) (i64.const 9)) (local.get $i))
        (call $load (i64.add (local.get $piece) (local.get $i))))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (br_if $next (i64.lt_u (local.get $i) (local.get $size))))
    (call $store (i64.add (i64.add (local.get $at) (i64.const 9)) (local.get $size)) (i32.const 34))
    (call $store (i64.add (i64.add (local.get $at) (i64.const 10)) (local.get $size)) (i32.const 125))
    (local.get $at))
  (func $events (param $piece i64) (result i32) (local $event i64) (local $i i32)
    (local.set $event (call $event (local.get $piece)))
    (loop $next
      (if (i64.lt_s (call $sse (local.get $event)) (i64.const 0)) (then (return (i32.const 1))))
      (drop (call $wait (i64.const 3)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (i32.const 10))))
    (i32.const 0))
  ;; Sends a piece, and the rest of the body.
  (func $echo (param $piece i64) (result i32)
    (loop $next
      (if (i64.lt_s (call $write (local.get $piece)) (i64.const 0)) (then (return (i32.const 1))))
      (local.set $piece (call $read (i64.const 65536)))
      (br_if $next (i64.gt_s (local.get $piece) (i64.const 0))))
    (i64.lt_s (local.get $piece) (i64.const 0)))
  (func (export "run") (result i32) (local $piece i64) (local $mood i32)
    (local.set $piece (call $read (i64.const 65536)))
    (if (i64.le_s (local.get $piece) (i64.const 0)) (then (return (i32.const 1))))
    (local.set $mood (call $load (local.get $piece)))
    (if (i32.eq (local.get $mood) (i32.const 69)) (then (return (call $events (local.get $piece)))))
    (drop (call $start (i64.const 0)))
    (if (i32.or (i32.eq (local.get $mood) (i32.const 76)) (i32.eq (local.get $mood) (i32.const 84))) (then
      (drop (call $write (local.get $piece)))
      (drop (call $flush))
      (if (i32.eq (local.get $mood) (i32.const 84)) (then unreachable))
      (loop $for_ever (br $for_ever))))
    (call $echo (local.get $piece))))
