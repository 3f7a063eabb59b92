;; Says what an instance finds when it is called, as numbers of 8 bytes, and then leaves stains wherever it can.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "load_u64" (func $load_u64 (param i64) (result i64)))
  (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "extism:host/env" "error_set" (func $error_set (param i64)))
  (import "extism:host/env" "var_get" (func $var_get (param i64) (result i64)))
  (import "extism:host/env" "var_set" (func $var_set (param i64 i64)))
  (memory (export "memory") 2 8)
  (data (i32.const 64) "as declared")
  (global $calls (mut i64) (i64.const 0))
  (global $at_start (mut i64) (i64.const 0))
  (global $rate (mut f64) (f64.const 0.5))
  (start $start)

  (func $start
    (global.set $at_start (call $sum)))

  ;; Of all words of the memory: 0 but for the data, if nobody has written into it.
  (func $sum (result i64)
    (local $at i32) (local $sum i64)
    (loop $next
      (local.set $sum (i64.add (i64.rotl (local.get $sum) (i64.const 1)) (i64.load (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.mul (memory.size) (i32.const 65536)))))
    (local.get $sum))

  ;; Of a block: its bytes are 0, if it is nobody's.
  (func $sum_block (param $at i64) (param $length i64) (result i64)
    (local $i i64) (local $sum i64)
    (loop $next
      (local.set $sum (i64.or (local.get $sum) (call $load_u64 (i64.add (local.get $at) (local.get $i)))))
      (call $store_u64 (i64.add (local.get $at) (local.get $i)) (i64.const -1))
      (local.set $i (i64.add (local.get $i) (i64.const 8)))
      (br_if $next (i64.lt_u (local.get $i) (local.get $length))))
    (local.get $sum))

  (func $stain
    (local $output i64) (local $block i64) (local $name i64)
    (local.set $output (call $alloc (i64.const 80)))
    (local.set $block (call $alloc (i64.const 65536)))
    (local.set $name (call $alloc (i64.const 8)))
    (call $store_u64 (local.get $name) (i64.const 0x656d616e656d616e)) ;; "namename"
    (call $store_u64 (local.get $output) (call $sum))
    (call $store_u64 (i64.add (local.get $output) (i64.const 8)) (global.get $at_start))
    (call $store_u64 (i64.add (local.get $output) (i64.const 16)) (global.get $calls))
    (call $store_u64 (i64.add (local.get $output) (i64.const 24)) (i64.extend_i32_u (memory.size)))
    (call $store_u64 (i64.add (local.get $output) (i64.const 32)) (i64.reinterpret_f64 (global.get $rate)))
    (call $store_u64 (i64.add (local.get $output) (i64.const 40)) (call $sum_block (local.get $block) (i64.const 65536)))
    (call $store_u64 (i64.add (local.get $output) (i64.const 48)) (local.get $output))
    (call $store_u64 (i64.add (local.get $output) (i64.const 56)) (local.get $block))
    (call $store_u64 (i64.add (local.get $output) (i64.const 64)) (call $input_offset))
    (call $store_u64 (i64.add (local.get $output) (i64.const 72)) (call $var_get (local.get $name)))
    (call $output_set (local.get $output) (i64.const 80))

    (memory.fill (i32.const 0) (i32.const 0xaa) (i32.mul (memory.size) (i32.const 65536)))
    (global.set $rate (f64.const 2.5))
    (global.set $calls (i64.add (global.get $calls) (i64.const 1)))
    (call $var_set (local.get $name) (local.get $block)))

  (func (export "stain") (call $stain))
  (func (export "refuse") (call $stain) (call $error_set (call $alloc (i64.const 8))))
  (func (export "grow")
    (call $stain)
    (drop (memory.grow (i32.const 3)))
    (memory.fill (i32.const 131072) (i32.const 0xaa) (i32.const 196608)))
  (func (export "trap") (call $stain) (unreachable)))
