;; Says no, with its input as the message.
(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "error_set" (func $error_set (param i64)))
  (func (export "refuse") (result i32)
    (call $error_set (call $input_offset))
    (i32.const 1)))
