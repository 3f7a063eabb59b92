;; Produces nothing.
(module
  (func (export "silent") (result i32) (i32.const 0)))
