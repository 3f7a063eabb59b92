;; Needs what nobody provides.
(module
  (import "extism:host/env" "input_length" (func (result i64)))
  (import "extism:host/env" "teleport" (func (param i64)))
  (import "env" "abort" (func (param i32)))
  (import "env" "memory" (memory 1))
  (func (export "go") (result i32) (i32.const 0)))
