;; Does itself harm: too deep, too much memory, no arithmetic.
(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (memory (export "memory") 1)
  (func $deeper (param i64) (result i64) (i64.add (local.get 0) (call $deeper (i64.add (local.get 0) (i64.const 1)))))
  (func (export "recurse") (drop (call $deeper (i64.const 0))))
  ;; Grows page by page as far as it may, writes to the last byte, and returns the number of pages.
  (func (export "grow") (result i32)
    (block $full
      (loop $next
        (br_if $full (i32.eq (memory.grow (i32.const 1)) (i32.const -1)))
        (br $next)))
    (i32.store8 (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 1)) (i32.const 1))
    (memory.size))
  (func (export "divide") (result i32) (i32.div_s (i32.const 1) (i32.const 0)))
  (func (export "beyond") (drop (i32.load (i32.const -4))))
  (func (export "healthy") (call $output_set (call $input_offset) (call $input_length))))
