;; Does what the first byte of its input says: L: never returns, W: computes for about 2 ms, u: for about
;; 200 us, w: for about 50 us. Then it echoes.
(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  ;; What the work came to, so that no compiler leaves it out.
  (global $result (export "result") (mut i32) (i32.const 0))
  ;; Each step of a xorshift needs the one before: as many cycles, whatever the machine does in parallel.
  (func $work (param $steps i32)
    (local $x i32)
    (local.set $x (i32.const 2463534242))
    (loop $again
      (local.set $x (i32.xor (local.get $x) (i32.shl (local.get $x) (i32.const 13))))
      (local.set $x (i32.xor (local.get $x) (i32.shr_u (local.get $x) (i32.const 17))))
      (local.set $x (i32.xor (local.get $x) (i32.shl (local.get $x) (i32.const 5))))
      (local.set $steps (i32.sub (local.get $steps) (i32.const 1)))
      (br_if $again (local.get $steps)))
    (global.set $result (local.get $x)))
  (func (export "answer") (result i32)
    (local $mood i32)
    (local.set $mood (call $input_load_u8 (i64.const 0)))
    (if (i32.eq (local.get $mood) (i32.const 76)) (then (loop $for_ever (br $for_ever))))
    (if (i32.eq (local.get $mood) (i32.const 87)) (then (call $work (i32.const 1300000))))
    (if (i32.eq (local.get $mood) (i32.const 117)) (then (call $work (i32.const 130000))))
    (if (i32.eq (local.get $mood) (i32.const 119)) (then (call $work (i32.const 32500))))
    (call $output_set (call $input_offset) (call $input_length))
    (i32.const 0)))
