;; Its memory is full of ones when it has started. Each call reads and writes in 16 places, and answers with the sum of what it read.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (memory (export "memory") 8)
  (func (export "_initialize")
    (memory.fill (i32.const 0) (i32.const 1) (i32.mul (memory.size) (i32.const 65536))))
  (func (export "touch") (result i32)
    (local $at i32) (local $sum i64) (local $to i64)
    (loop $next
      (local.set $sum (i64.add (local.get $sum) (i64.load (local.get $at))))
      (i64.store (local.get $at) (i64.const 7))
      (local.set $at (i32.add (local.get $at) (i32.const 32768)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 524288))))
    (local.set $to (call $alloc (i64.const 8)))
    (call $store_u64 (local.get $to) (local.get $sum))
    (call $output_set (local.get $to) (i64.const 8))
    (i32.const 0)))
