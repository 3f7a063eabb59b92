;; Never returns.
(module
  (func (export "loop") (result i32) (loop $for_ever (br $for_ever)) (i32.const 0)))
