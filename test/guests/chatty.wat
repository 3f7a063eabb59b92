;; Logs 150 lines of five bytes in a call, which is more than it may.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "log_info" (func $log (param i64)))
  (func (export "chatty") (result i32)
    (local $i i32)
    (loop $again
      (call $log (call $alloc (i64.const 5)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $i) (i32.const 150))))
    (i32.const 0)))
