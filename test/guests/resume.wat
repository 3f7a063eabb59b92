;; Sends the events that follow Last-Event-ID, three on each connection: the second connection breaks off. After the
;; ninth it answers 204, which ends the attempts of a browser. For the contract http.
(module
  (import "extism:host/env" "input_length" (func $length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $byte (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "wasm-serve:http" "response_start" (func $start (param i64) (result i64)))
  (import "wasm-serve:http" "sse" (func $sse (param i64) (result i64)))
  (memory 1)
  (data (i32.const 0) "\22last-event-id\22:\22")
  (data (i32.const 32) "{\22retry\22:10,\22id\22:\220\22,\22data\22:\22event 0\22}")
  (data (i32.const 96) "{\22status\22:204}")
  (func $block (param $from i32) (param $bytes i32) (result i64) (local $at i64) (local $i i32)
    (local.set $at (call $alloc (i64.extend_i32_u (local.get $bytes))))
    (loop $next
      (call $store (i64.add (local.get $at) (i64.extend_i32_u (local.get $i)))
        (i32.load8_u (i32.add (local.get $from) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (local.get $bytes))))
    (local.get $at))
  ;; Whether the input has the header at an offset.
  (func $is_header (param $at i32) (result i32) (local $i i32)
    (loop $next
      (if (i32.ne
            (call $byte (i64.extend_i32_u (i32.add (local.get $at) (local.get $i))))
            (i32.load8_u (local.get $i)))
        (then (return (i32.const 0))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (i32.const 17))))
    (i32.const 1))
  ;; The digit of the header; 0 without one.
  (func $last_id (result i32) (local $at i32)
    (loop $next
      (if (call $is_header (local.get $at)) (then
        (return (i32.sub
          (call $byte (i64.extend_i32_u (i32.add (local.get $at) (i32.const 17)))) (i32.const 48)))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i64.lt_u (i64.extend_i32_u (i32.add (local.get $at) (i32.const 17))) (call $length))))
    (i32.const 0))
  (func (export "run") (result i32) (local $id i32)
    (local.set $id (call $last_id))
    (if (i32.ge_s (local.get $id) (i32.const 9)) (then
      (drop (call $start (call $block (i32.const 96) (i32.const 14))))
      (return (i32.const 0))))
    (loop $next
      (local.set $id (i32.add (local.get $id) (i32.const 1)))
      (i32.store8 (i32.const 50) (i32.add (local.get $id) (i32.const 48)))
      (i32.store8 (i32.const 67) (i32.add (local.get $id) (i32.const 48)))
      (drop (call $sse (call $block (i32.const 32) (i32.const 38))))
      (br_if $next (i32.rem_u (local.get $id) (i32.const 3))))
    (if (i32.eq (local.get $id) (i32.const 6)) (then unreachable))
    (i32.const 0)))
