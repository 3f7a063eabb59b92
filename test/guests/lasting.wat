;; Changes what no host can put back, and traps if it finds it changed.
(module
  (memory (export "memory") 1)
  (data $passive "passive")
  (table $table 2 funcref)
  (elem (table $table) (i32.const 0) func $first)
  (elem declare func $second)

  (func $first (result i32) (i32.const 0))
  (func $second (result i32) (i32.const 1))

  (func (export "change") (result i32)
    (memory.init $passive (i32.const 96) (i32.const 0) (i32.const 7)) ;; traps if it was dropped before
    (data.drop $passive)
    (if (call_indirect $table (result i32) (i32.const 0)) (then (unreachable)))
    (table.set $table (i32.const 0) (ref.func $second))
    (i32.const 0)))
