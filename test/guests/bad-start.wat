;; Traps when it is instantiated.
(module
  (func $main (unreachable))
  (start $main)
  (func (export "go") (result i32) (i32.const 0)))
