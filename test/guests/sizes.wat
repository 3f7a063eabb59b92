;; Answers with the sizes that it finds while its memory grows, and with what lay behind its first pages, as numbers of
;; 8 bytes; then it leaves stains there, as far as the memory goes.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (memory (export "memory") 2)
  (global $output (mut i64) (i64.const 0))
  (global $at (mut i64) (i64.const 0))

  (func $answer (param $number i64)
    (call $store_u64 (i64.add (global.get $output) (global.get $at)) (local.get $number))
    (global.set $at (i64.add (global.get $at) (i64.const 8))))

  (func $size (call $answer (i64.extend_i32_u (memory.size))))

  ;; From the end of the second page to the end of the memory.
  (func $found (result i64)
    (local $at i32) (local $found i64)
    (local.set $at (i32.const 131072))
    (loop $next
      (local.set $found (i64.or (local.get $found) (i64.load (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.mul (memory.size) (i32.const 65536)))))
    (local.get $found))

  (func $run (param $pages i32)
    (global.set $output (call $alloc (i64.const 48)))
    (call $size)
    (call $answer (i64.extend_i32_s (memory.grow (local.get $pages))))
    (call $size)
    (call $answer (i64.extend_i32_s (memory.grow (i32.const 100))))
    (call $size)
    (call $answer (call $found))
    (memory.fill (i32.const 131072) (i32.const 0xaa)
      (i32.mul (i32.sub (memory.size) (i32.const 2)) (i32.const 65536)))
    (call $output_set (global.get $output) (i64.const 48)))

  (func (export "sizes") (call $run (i32.const 3)))
  (func (export "large") (call $run (i32.const 10)))

  ;; Reads and writes behind the end: traps, or finds nothing.
  (func (export "behind")
    (if (i64.ne (i64.load (i32.const 700000)) (i64.const 0)) (then (unreachable)))
    (i64.store (i32.const 700000) (i64.const -1))
    (call $run (i32.const 3))))
