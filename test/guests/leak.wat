;; Answers with its input. Each call takes 4 KiB and gives nothing back, as a guest does whose memory nobody collects.
(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (memory (export "memory") 1)
  (global $top (mut i32) (i32.const 0))
  (func (export "leak") (result i32)
    (global.set $top (i32.add (global.get $top) (i32.const 4096)))
    (if (i32.gt_u (global.get $top) (i32.mul (memory.size) (i32.const 65536)))
      (then (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (unreachable)))))
    (i32.store (i32.sub (global.get $top) (i32.const 4)) (i32.const 1))
    (call $output_set (call $input_offset) (call $input_length))
    (i32.const 0)))
