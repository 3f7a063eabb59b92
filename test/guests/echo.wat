;; Answers with its input: the host's own block, nothing is copied.
(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "echo") (result i32)
    (call $output_set (call $input_offset) (call $input_length))
    (i32.const 0)))
