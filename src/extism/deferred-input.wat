;; Loads and stores for guests whose input is not in its block yet. The host copies the input when the guest reaches for
;; it, and only as far as the guest reads. They stand in for those of `kernel.wasm`, and work on its memory.
;;
;; The block of a deferred input is the first one, at 1024. Beside the kernel's root, in bytes that the kernel does not use,
;; the host keeps, all of it zero if no input is deferred:
;;
;;   960  filled      i64  bytes of the input that are in the block
;;   968  rest        i64  bytes that are not; 0 if all are there
;;   976  rest8       i64  rest + 7, or 0
;;   984  watched     i64  length of the input until the guest stores into it, then 0
(module $deferred-input
  (import "kernel" "memory" (memory 2))
  (import "kernel" "reset" (func $kernel_reset))
  (import "host" "fill" (func $fill (param i32))) ;; copies the input up to this offset in it, or further
  (import "host" "fill_all" (func $fill_all)) ;; copies all of it: the guest is going to change it

  (func (export "load_u8") (param $at i64) (result i32)
    (local $from i64)
    (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 0))) (then (unreachable)))
    (if (i64.lt_u (i64.sub (local.get $from) (i64.load (i32.const 960))) (i64.load (i32.const 968)))
      (then (call $fill (i32.add (i32.wrap_i64 (local.get $from)) (i32.const 1)))))
    (i32.load8_u (i32.wrap_i64 (local.get $at))))

  (func (export "load_u64") (param $at i64) (result i64)
    (local $from i64)
    (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 8))) (then (unreachable)))
    (if (i64.lt_u
          (i64.sub (i64.add (local.get $from) (i64.const 7)) (i64.load (i32.const 960)))
          (i64.load (i32.const 976)))
      (then (call $fill (i32.add (i32.wrap_i64 (local.get $from)) (i32.const 8)))))
    (i64.load align=1 (i32.wrap_i64 (local.get $at))))

  (func (export "store_u8") (param $at i64) (param $byte i32)
    (local $from i64)
    (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 0))) (then (unreachable)))
    (if (i64.lt_u (local.get $from) (i64.load (i32.const 984))) (then (call $fill_all)))
    (i32.store8 (i32.wrap_i64 (local.get $at)) (local.get $byte)))

  (func (export "store_u64") (param $at i64) (param $bytes i64)
    (local $from i64)
    (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 8))) (then (unreachable)))
    (if (i64.lt_u (local.get $from) (i64.load (i32.const 984))) (then (call $fill_all)))
    (i64.store align=1 (i32.wrap_i64 (local.get $at)) (local.get $bytes)))

  (func (export "input_load_u8") (param $i i64) (result i32)
    (if (i64.ge_u (local.get $i) (i64.load (i32.const 16))) (then (unreachable)))
    (if (i64.lt_u (i64.sub (local.get $i) (i64.load (i32.const 960))) (i64.load (i32.const 968)))
      (then (call $fill (i32.add (i32.wrap_i64 (local.get $i)) (i32.const 1)))))
    (i32.load8_u (i32.add (i32.load (i32.const 32)) (i32.wrap_i64 (local.get $i)))))

  (func (export "input_load_u64") (param $i i64) (result i64)
    (if (i64.ge_u (local.get $i) (i64.load (i32.const 24))) (then (unreachable)))
    (if (i64.lt_u
          (i64.sub (i64.add (local.get $i) (i64.const 7)) (i64.load (i32.const 960)))
          (i64.load (i32.const 976)))
      (then (call $fill (i32.add (i32.wrap_i64 (local.get $i)) (i32.const 8)))))
    (i64.load align=1 (i32.add (i32.load (i32.const 32)) (i32.wrap_i64 (local.get $i)))))

  ;; For the host: ends a call, as the kernel's `reset` does. Bytes of the block that were not filled are zero already, and
  ;; so is the map for them, but for the entry of the block itself.
  (func (export "reset")
    (local $end i32) (local $span i32) (local $map i32) (local $skipped i32)
    (if (i32.load (i32.const 968))
      (then
        (local.set $span (i32.load (i32.const 0)))
        (local.set $end (i32.add (i32.load (i32.const 960)) (i32.load (i32.const 968))))
        (local.set $map (i32.load (i32.const 56)))
        (local.set $skipped (i32.shl (i32.shr_u (local.get $end) (i32.const 4)) (i32.const 2)))
        (memory.fill (i32.const 1024) (i32.const 0) (i32.load (i32.const 960)))
        (memory.fill
          (i32.add (i32.const 1024) (local.get $end))
          (i32.const 0)
          (i32.sub (local.get $span) (local.get $end)))
        (i32.store (local.get $map) (i32.const 0))
        (memory.fill
          (i32.add (local.get $map) (local.get $skipped))
          (i32.const 0)
          (i32.sub (i32.shr_u (local.get $span) (i32.const 2)) (local.get $skipped)))
        (if (i32.load (i32.const 52)) (then (memory.fill (i32.const 64) (i32.const 0) (i32.const 800))))
        (i64.store (i32.const 0) (i64.const 0)))) ;; the kernel has nothing left to wipe
    (i64.store (i32.const 960) (i64.const 0))
    (i64.store (i32.const 968) (i64.const 0))
    (i64.store (i32.const 976) (i64.const 0))
    (i64.store (i32.const 984) (i64.const 0))
    (call $kernel_reset)))
