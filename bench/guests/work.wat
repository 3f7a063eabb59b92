;; Loops as libraries have them.
(module
  (memory (export "memory") 24)
  ;; A hash of 1 MiB, of eight bytes at a time.
  (func (export "hash") (result i32)
    (local $at i32) (local $hash i64)
    (loop $next
      (local.set $hash (i64.mul
        (i64.rotl (i64.xor (local.get $hash) (i64.load (local.get $at))) (i64.const 31))
        (i64.const 0x9e3779b185ebca87)))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 0x100000))))
    (i64.store (i32.const 0x100000) (local.get $hash))
    (i32.const 0))
  (func $row (param $at i32) (result i32)
    (i32.add
      (i32.add (i32.load8_u (local.get $at)) (i32.load8_u offset=1 (local.get $at)))
      (i32.load8_u offset=2 (local.get $at))))
  ;; Blurs an image of 512 x 512 gray pixels: each is the mean of 3 x 3.
  (func (export "blur") (result i32)
    (local $x i32) (local $y i32) (local $at i32)
    (loop $rows
      (local.set $x (i32.const 0))
      (loop $pixels
        (local.set $at (i32.add (i32.shl (local.get $y) (i32.const 9)) (local.get $x)))
        (i32.store8 offset=0x100201 (local.get $at) (i32.div_u
          (i32.add
            (i32.add (call $row (local.get $at)) (call $row (i32.add (local.get $at) (i32.const 512))))
            (call $row (i32.add (local.get $at) (i32.const 1024))))
          (i32.const 9)))
        (br_if $pixels (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 1))) (i32.const 510))))
      (br_if $rows (i32.lt_u (local.tee $y (i32.add (local.get $y) (i32.const 1))) (i32.const 510))))
    (i32.const 0)))
