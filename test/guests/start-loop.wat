;; Never ends to start.
(module
  (func $main (loop $for_ever (br $for_ever)))
  (start $main)
  (func (export "go") (result i32) (i32.const 0)))
