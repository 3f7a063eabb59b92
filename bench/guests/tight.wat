;; The tightest loops and calls: what a check costs at most.
(module
  (memory (export "memory") 17)
  (func (export "sum") (result i32)
    (local $i i32) (local $sum i32)
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (i32.load8_u (i32.and (local.get $i) (i32.const 0xfffff)))))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 10000000))))
    (i32.store (i32.const 0) (local.get $sum))
    (i32.const 0))
  (func (export "xorshift") (result i32)
    (local $i i32) (local $x i32)
    (local.set $x (i32.const 88172645))
    (loop $next
      (local.set $x (i32.xor (local.get $x) (i32.shl (local.get $x) (i32.const 13))))
      (local.set $x (i32.xor (local.get $x) (i32.shr_u (local.get $x) (i32.const 17))))
      (local.set $x (i32.xor (local.get $x) (i32.shl (local.get $x) (i32.const 5))))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 10000000))))
    (i32.store (i32.const 0) (local.get $x))
    (i32.const 0))
  (func $fib (param $n i32) (result i32)
    (if (result i32) (i32.lt_u (local.get $n) (i32.const 2))
      (then (local.get $n))
      (else (i32.add
        (call $fib (i32.sub (local.get $n) (i32.const 1)))
        (call $fib (i32.sub (local.get $n) (i32.const 2)))))))
  (func (export "fib") (result i32) (drop (call $fib (i32.const 30))) (i32.const 0)))
