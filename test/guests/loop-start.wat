;; Never gets started.
(module
  (func $start (loop $for_ever (br $for_ever)))
  (start $start)
  (func (export "never") (result i32) (i32.const 0)))
