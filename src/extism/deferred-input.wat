;; Loads and stores for guests whose input is not in its block yet. The host copies the input when the guest reaches for
;; it, and only as far as the guest reads. The functions stand in for those of `kernel.wasm`, and work on its memory.
;;
;; The block of a deferred input is the first one, at 1024. The state is behind the kernel's root, in bytes that the kernel
;; does not use. A load or store first compares with a limit that is 0 while the slower check is needed: if no input is
;; deferred, it costs as much as in the kernel.
;;
;;   944  loads       i64  span of the blocks, or 0 while bytes of the input are not in its block
;;   952  loads8      i64  span - 7, or 0 likewise
;;   960  filled      i64  bytes of the input that can be read: all of it, or those in the block
;;   968  filled8     i64  filled - 7, or 0
;;   976  rest        i64  bytes of the input that are not in the block
;;   984  watched     i64  length of a deferred input until it is stored into, then 0
;;   992  stores      i64  span of the blocks, or 0 while the input is watched
;;  1000  stores8     i64  span - 7, or 0 likewise
;;  1008  slow        i64  stores that were compared with the watched input; after 64 of them it is no longer watched
(module $deferred-input
  (import "kernel" "memory" (memory 2))
  (import "kernel" "alloc" (func $kernel_alloc (param i64) (result i64)))
  (import "kernel" "free" (func $kernel_free (param i64)))
  (import "kernel" "block_new" (func $kernel_block_new (param i32) (result i32)))
  (import "kernel" "input_new" (func $kernel_input_new (param i32) (result i32)))
  (import "kernel" "reset" (func $kernel_reset))
  (import "host" "fill" (func $fill (param i32))) ;; copies the input up to this offset in it, or further
  (import "host" "fill_all" (func $fill_all)) ;; copies all of it: the guest is going to change it

  (func (export "alloc") (param $n i64) (result i64)
    (local $at i64)
    (local.set $at (call $kernel_alloc (local.get $n)))
    (call $limit)
    (local.get $at))

  (func (export "free") (param $at i64)
    (call $kernel_free (local.get $at))
    (call $limit))

  (func (export "load_u8") (param $at i64) (result i32)
    (local $from i64)
    (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 944)))
      (then (call $before_load (local.get $from) (i64.const 1) (i64.load (i32.const 0)))))
    (i32.load8_u (i32.wrap_i64 (local.get $at))))

  (func (export "load_u64") (param $at i64) (result i64)
    (local $from i64)
    (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 952)))
      (then (call $before_load (local.get $from) (i64.const 8) (i64.load (i32.const 8)))))
    (i64.load align=1 (i32.wrap_i64 (local.get $at))))

  (func (export "store_u8") (param $at i64) (param $byte i32)
    (local $from i64)
    (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 992)))
      (then (call $before_store (local.get $from) (i64.load (i32.const 0)))))
    (i32.store8 (i32.wrap_i64 (local.get $at)) (local.get $byte)))

  (func (export "store_u64") (param $at i64) (param $bytes i64)
    (local $from i64)
    (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 1000)))
      (then (call $before_store (local.get $from) (i64.load (i32.const 8)))))
    (i64.store align=1 (i32.wrap_i64 (local.get $at)) (local.get $bytes)))

  (func (export "input_load_u8") (param $i i64) (result i32)
    (if (i64.ge_u (local.get $i) (i64.load (i32.const 960)))
      (then
        (if (i64.ge_u (local.get $i) (i64.load (i32.const 16))) (then (unreachable)))
        (call $fill (i32.add (i32.wrap_i64 (local.get $i)) (i32.const 1)))))
    (i32.load8_u (i32.add (i32.load (i32.const 32)) (i32.wrap_i64 (local.get $i)))))

  (func (export "input_load_u64") (param $i i64) (result i64)
    (if (i64.ge_u (local.get $i) (i64.load (i32.const 968)))
      (then
        (if (i64.ge_u (local.get $i) (i64.load (i32.const 24))) (then (unreachable)))
        (call $fill (i32.add (i32.wrap_i64 (local.get $i)) (i32.const 8)))))
    (i64.load align=1 (i32.add (i32.load (i32.const 32)) (i32.wrap_i64 (local.get $i)))))

  ;; From here on for the host.

  (func (export "block_new") (param $n i32) (result i32)
    (local $at i32)
    (local.set $at (call $kernel_block_new (local.get $n)))
    (call $limit)
    (local.get $at))

  (func (export "input_new") (param $n i32) (result i32)
    (local $at i32)
    (local.set $at (call $kernel_input_new (local.get $n)))
    (call $limit)
    (local.get $at))

  ;; Sets how many bytes of the input are not in the block, and how many are watched.
  (func (export "defer") (param $rest i32) (param $watched i32)
    (i64.store (i32.const 976) (i64.extend_i32_u (local.get $rest)))
    (i64.store (i32.const 984) (i64.extend_i32_u (local.get $watched)))
    (call $limit))

  ;; Ends a call, as the kernel's `reset` does. Bytes of the block that were not filled are zero already, and so is the map
  ;; for them, but for the entry of the block itself. While bytes are not filled, all of the input is watched.
  (func (export "reset")
    (local $length i32) (local $span i32) (local $map i32) (local $skipped i32)
    (if (i32.load (i32.const 976))
      (then
        (local.set $length (i32.load (i32.const 984)))
        (local.set $span (i32.load (i32.const 0)))
        (local.set $map (i32.load (i32.const 56)))
        (local.set $skipped (i32.shl (i32.shr_u (local.get $length) (i32.const 4)) (i32.const 2)))
        (memory.fill
          (i32.const 1024)
          (i32.const 0)
          (i32.sub (local.get $length) (i32.load (i32.const 976))))
        (memory.fill
          (i32.add (i32.const 1024) (local.get $length))
          (i32.const 0)
          (i32.sub (local.get $span) (local.get $length)))
        (i32.store (local.get $map) (i32.const 0))
        (memory.fill
          (i32.add (local.get $map) (local.get $skipped))
          (i32.const 0)
          (i32.sub (i32.shr_u (local.get $span) (i32.const 2)) (local.get $skipped)))
        (if (i32.load (i32.const 52)) (then (memory.fill (i32.const 64) (i32.const 0) (i32.const 800))))
        (i64.store (i32.const 0) (i64.const 0)))) ;; the kernel has nothing left to wipe
    (i64.store (i32.const 976) (i64.const 0))
    (i64.store (i32.const 984) (i64.const 0))
    (i64.store (i32.const 1008) (i64.const 0))
    (call $kernel_reset)
    (call $limit))

  ;; Helpers.

  ;; Traps if the offset is outside of the blocks, and fills the input up to the end of the load.
  (func $before_load (param $from i64) (param $n i64) (param $span i64)
    (if (i64.ge_u (local.get $from) (local.get $span)) (then (unreachable)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 984))) (then (return)))
    (if (i64.gt_u
          (i64.add (local.get $from) (local.get $n))
          (i64.sub (i64.load (i32.const 984)) (i64.load (i32.const 976))))
      (then (call $fill (i32.wrap_i64 (i64.add (local.get $from) (local.get $n)))))))

  (func $before_store (param $from i64) (param $span i64)
    (if (i64.ge_u (local.get $from) (local.get $span)) (then (unreachable)))
    (i64.store (i32.const 1008) (i64.add (i64.load (i32.const 1008)) (i64.const 1)))
    (if (i32.or
          (i64.lt_u (local.get $from) (i64.load (i32.const 984)))
          (i64.gt_u (i64.load (i32.const 1008)) (i64.const 64)))
      (then (call $fill_all))))

  ;; Sets the limits anew: the blocks, the input or what is deferred has changed.
  (func $limit
    (local $rest i64) (local $watched i64) (local $filled i64)
    (local.set $rest (i64.load (i32.const 976)))
    (local.set $watched (i64.load (i32.const 984)))
    (i64.store (i32.const 992)
      (select (i64.const 0) (i64.load (i32.const 0)) (i64.ne (local.get $watched) (i64.const 0))))
    (i64.store (i32.const 1000)
      (select (i64.const 0) (i64.load (i32.const 8)) (i64.ne (local.get $watched) (i64.const 0))))
    (if (i64.eqz (local.get $rest))
      (then
        (i64.store (i32.const 944) (i64.load (i32.const 0)))
        (i64.store (i32.const 952) (i64.load (i32.const 8)))
        (i64.store (i32.const 960) (i64.load (i32.const 16)))
        (i64.store (i32.const 968) (i64.load (i32.const 24))))
      (else
        (if (i64.ne (i64.load (i32.const 16)) (i64.const 0)) ;; the input was not freed
          (then (local.set $filled (i64.sub (i64.load (i32.const 16)) (local.get $rest)))))
        (i64.store (i32.const 944) (i64.const 0))
        (i64.store (i32.const 952) (i64.const 0))
        (i64.store (i32.const 960) (local.get $filled))
        (i64.store (i32.const 968)
          (select
            (i64.sub (local.get $filled) (i64.const 7))
            (i64.const 0)
            (i64.gt_u (local.get $filled) (i64.const 7))))))))
