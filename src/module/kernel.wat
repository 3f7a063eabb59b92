;; The kernel: Extism's memory, allocator, input, output and error, in WebAssembly.
;;
;; A guest does not share its memory with its host. What passes between them lies in blocks of this memory, and the
;; guest reaches them only by calling what Extism calls its host functions: alloc, load_u64, output_set, ... Those are
;; exports of this module and become the guest's imports as they are, so that no JavaScript runs when it calls them.
;; `memory`, `reset` and the other exports at the end are for the host alone; no guest is ever given them.
;;
;; Each number that a guest passes is a hostile 64-bit number: it is compared as it came, unsigned, before it is cut to
;; an address of 32 bits. To read, write or name what is outside the blocks traps.
;;
;; The memory:
;;
;;         0  root    the state below, and the lists of freed blocks
;;      1024  blocks  as far as they are in use; zero behind
;;     limit  map     4 bytes for each 16 of the blocks' room; zero behind
;;
;; The map says for each 16 bytes what begins there: a live block (its length), a freed block (the sign bit, and the
;; next block in its list) or nothing (0). It is out of the guest's reach, so nothing in it needs to be checked; it
;; tells the length of a block without a search, and it makes a wild or second `free` harmless. When the blocks
;; need more room, the memory grows and the map moves up.
;;
;; The root, all of it zero between calls except limit and most:
;;
;;    0  span        i64  bytes of the blocks in use: the guest may touch 1024 up to 1024 + span
;;    8  span8       i64  offsets from 1024 at which 8 bytes can be touched: span - 7, or 0
;;   16  input       i64  length of the input
;;   24  input8      i64  offsets in the input at which 8 bytes can be read: its length - 7, or 0
;;   32  input at    i32  offset of the input; 0 if it is empty
;;   36  output at   i32  offset of the output
;;   40  output      i32  length of the output
;;   44  error at    i32  offset of the error message; 0 if the guest set none
;;   48  error       i32  length of the error message
;;   52  freed       i32  1 if a block was freed
;;   56  limit       i32  where the map begins
;;   60  most        i32  bytes of blocks that a call may use: the host sets it; below 2 GiB
;;   64  lists       i32  200 of them: the first freed block of each size class
;;
;; The state is in memory, not in globals, because V8 reads a constant address in one instruction, a global in two.
(module $kernel
  (memory (export "memory") 2)
  (data (i32.const 56) "\00\98\01\00" "\00\00\00\04") ;; limit 104448, as far as 2 pages have room for a map; most 64 MiB

  ;; Returns the offset of a new block, or 0 if n is 0 or the call may not have that much. Fresh blocks are zero.
  (func $alloc (export "alloc") (param $n i64) (result i64)
    (if (i64.gt_u (local.get $n) (i64.load32_u (i32.const 60))) (then (return (i64.const 0))))
    (i64.extend_i32_u (call $block_new (i32.wrap_i64 (local.get $n)))))

  ;; The block is used again for those of its size, unless the output or the error is in it. A second time, or with an
  ;; offset that is no block's, does nothing.
  (func $free (export "free") (param $at i64)
    (local $length i32) (local $list i32)
    (local.set $length (call $length_of (local.get $at)))
    (if (i32.eqz (local.get $length)) (then (return)))
    (if (i32.or
          (i32.lt_u (i32.sub (i32.load (i32.const 36)) (i32.wrap_i64 (local.get $at))) (local.get $length))
          (i32.lt_u (i32.sub (i32.load (i32.const 44)) (i32.wrap_i64 (local.get $at))) (local.get $length)))
      (then (i32.store (call $entry (i32.wrap_i64 (local.get $at))) (i32.const 0x80000000)))
      (else
        (local.set $list (call $list_of (call $class (local.get $length))))
        (i32.store (call $entry (i32.wrap_i64 (local.get $at)))
          (i32.or (i32.const 0x80000000) (i32.shr_u (i32.load (local.get $list)) (i32.const 4))))
        (i32.store (local.get $list) (i32.wrap_i64 (local.get $at)))
        (i32.store (i32.const 52) (i32.const 1))))
    (if (i64.eq (local.get $at) (i64.load32_u (i32.const 32))) ;; the input is gone, as in Extism's kernel
      (then
        (i64.store (i32.const 16) (i64.const 0))
        (i64.store (i32.const 24) (i64.const 0)))))

  ;; The length that a live block was asked for with; 0 for every other offset. Extism has a second function that is
  ;; faster and may err; ours needs none.
  (func $length (export "length") (export "length_unsafe") (param $at i64) (result i64)
    (i64.extend_i32_u (call $length_of (local.get $at))))

  (func $load_u8 (export "load_u8") (param $at i64) (result i32)
    (if (i64.ge_u (i64.sub (local.get $at) (i64.const 1024)) (i64.load (i32.const 0))) (then (unreachable)))
    (i32.load8_u (i32.wrap_i64 (local.get $at))))

  (func $load_u64 (export "load_u64") (param $at i64) (result i64)
    (if (i64.ge_u (i64.sub (local.get $at) (i64.const 1024)) (i64.load (i32.const 8))) (then (unreachable)))
    (i64.load align=1 (i32.wrap_i64 (local.get $at))))

  (func $store_u8 (export "store_u8") (param $at i64) (param $byte i32)
    (if (i64.ge_u (i64.sub (local.get $at) (i64.const 1024)) (i64.load (i32.const 0))) (then (unreachable)))
    (i32.store8 (i32.wrap_i64 (local.get $at)) (local.get $byte)))

  (func $store_u64 (export "store_u64") (param $at i64) (param $bytes i64)
    (if (i64.ge_u (i64.sub (local.get $at) (i64.const 1024)) (i64.load (i32.const 8))) (then (unreachable)))
    (i64.store align=1 (i32.wrap_i64 (local.get $at)) (local.get $bytes)))

  (func $input_offset (export "input_offset") (result i64) (i64.load32_u (i32.const 32)))

  (func $input_length (export "input_length") (result i64) (i64.load (i32.const 16)))

  (func $input_load_u8 (export "input_load_u8") (param $i i64) (result i32)
    (if (i64.ge_u (local.get $i) (i64.load (i32.const 16))) (then (unreachable)))
    (i32.load8_u (i32.add (i32.load (i32.const 32)) (i32.wrap_i64 (local.get $i)))))

  (func $input_load_u64 (export "input_load_u64") (param $i i64) (result i64)
    (if (i64.ge_u (local.get $i) (i64.load (i32.const 24))) (then (unreachable)))
    (i64.load align=1 (i32.add (i32.load (i32.const 32)) (i32.wrap_i64 (local.get $i)))))

  ;; Names the output: any bytes within the blocks in use, as in Extism's kernel; they may span several blocks.
  (func $output_set (export "output_set") (param $at i64) (param $n i64)
    (local $from i64)
    (if (i64.ne (local.get $n) (i64.const 0))
      (then
        (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
        (if (i64.ge_u (local.get $from) (i64.load (i32.const 0))) (then (unreachable)))
        (if (i64.gt_u (local.get $n) (i64.sub (i64.load (i32.const 0)) (local.get $from))) (then (unreachable)))))
    (i32.store (i32.const 36) (i32.wrap_i64 (local.get $at)))
    (i32.store (i32.const 40) (i32.wrap_i64 (local.get $n))))

  ;; Makes a live block the error message; 0 takes it back. The message stays if the block is freed afterwards.
  (func $error_set (export "error_set") (param $at i64)
    (local $length i32)
    (if (i64.ne (local.get $at) (i64.const 0))
      (then
        (local.set $length (call $length_of (local.get $at)))
        (if (i32.eqz (local.get $length)) (then (unreachable)))))
    (i32.store (i32.const 44) (i32.wrap_i64 (local.get $at)))
    (i32.store (i32.const 48) (local.get $length)))

  (func $error_get (export "error_get") (result i64) (i64.load32_u (i32.const 44)))

  ;; From here on for the host, which passes numbers that it trusts.

  ;; Like alloc, with an address for an offset: a number to JavaScript, where an i64 is a BigInt.
  (func $block_new (export "block_new") (param $n i32) (result i32)
    (local $class i32) (local $list i32) (local $at i32) (local $room i32)
    (if (i32.eqz (local.get $n)) (then (return (i32.const 0))))
    (if (i32.gt_u (local.get $n) (i32.load (i32.const 60))) (then (return (i32.const 0))))
    (local.set $class (call $class (local.get $n)))
    (local.set $list (call $list_of (local.get $class)))
    (local.set $at (i32.load (local.get $list)))
    (if (local.get $at)
      (then ;; a freed block: the next one in the list becomes the first
        (i32.store (local.get $list) (i32.shl (i32.load (call $entry (local.get $at))) (i32.const 4))))
      (else
        (local.set $room (call $room (local.get $class)))
        (local.set $at (i32.add (i32.const 1024) (i32.load (i32.const 0))))
        (if (i32.gt_u (local.get $room) (i32.sub (i32.load (i32.const 60)) (i32.load (i32.const 0))))
          (then (return (i32.const 0))))
        (if (i32.gt_u (i32.add (local.get $at) (local.get $room)) (i32.load (i32.const 56)))
          (then
            (if (i32.eqz (call $make_room (i32.add (local.get $at) (local.get $room))))
              (then (return (i32.const 0))))))
        (i64.store (i32.const 0) (i64.add (i64.load (i32.const 0)) (i64.extend_i32_u (local.get $room))))
        (i64.store (i32.const 8) (i64.sub (i64.load (i32.const 0)) (i64.const 7)))))
    (i32.store (call $entry (local.get $at)) (local.get $n))
    (local.get $at))

  ;; The block of the input, for the host to fill; 0 if there is no room.
  (func $input_new (export "input_new") (param $n i32) (result i32)
    (local $at i32)
    (local.set $at (call $block_new (local.get $n)))
    (if (local.get $at)
      (then
        (i32.store (i32.const 32) (local.get $at))
        (i64.store (i32.const 16) (i64.extend_i32_u (local.get $n)))
        (if (i32.gt_u (local.get $n) (i32.const 7))
          (then (i64.store (i32.const 24) (i64.extend_i32_u (i32.sub (local.get $n) (i32.const 7))))))))
    (local.get $at))

  (func $block_length (export "block_length") (param $at i32) (result i32)
    (call $length_of (i64.extend_i32_u (local.get $at))))

  ;; Ends a call: whatever it put into the blocks is wiped, and none of them is left. (To fill costs V8 a call into
  ;; C++, about 30 ns, so it is not done where there is nothing to wipe, nor for the few words of the state.)
  (func $reset (export "reset")
    (if (i32.load (i32.const 0))
      (then
        (memory.fill (i32.const 1024) (i32.const 0) (i32.load (i32.const 0)))
        (memory.fill (i32.load (i32.const 56)) (i32.const 0) (i32.shr_u (i32.load (i32.const 0)) (i32.const 2)))
        (if (i32.load (i32.const 52)) (then (memory.fill (i32.const 64) (i32.const 0) (i32.const 800))))))
    (i64.store (i32.const 0) (i64.const 0))
    (i64.store (i32.const 8) (i64.const 0))
    (i64.store (i32.const 16) (i64.const 0))
    (i64.store (i32.const 24) (i64.const 0))
    (i64.store (i32.const 32) (i64.const 0))
    (i64.store (i32.const 40) (i64.const 0))
    (i64.store (i32.const 48) (i64.const 0)))

  ;; Helpers.

  (func $length_of (param $at i64) (result i32)
    (local $from i64) (local $entry i32)
    (local.set $from (i64.sub (local.get $at) (i64.const 1024)))
    (if (i64.ge_u (local.get $from) (i64.load (i32.const 0))) (then (return (i32.const 0))))
    (if (i32.and (i32.wrap_i64 (local.get $from)) (i32.const 15)) (then (return (i32.const 0))))
    (local.set $entry (i32.load (call $entry (i32.wrap_i64 (local.get $at)))))
    (select (local.get $entry) (i32.const 0) (i32.gt_s (local.get $entry) (i32.const 0))))

  ;; Where the map speaks of the block at an address.
  (func $entry (param $at i32) (result i32)
    (i32.add (i32.load (i32.const 56)) (i32.shr_u (i32.sub (local.get $at) (i32.const 1024)) (i32.const 2))))

  ;; Sizes have classes, so that a freed block can be found without a search: each multiple of 16 up to 256, and from
  ;; there 8 classes from each power of two to the next, so that at most an eighth of a block is wasted.
  (func $class (param $n i32) (result i32)
    (local $last i32) (local $shift i32)
    (local.set $last (i32.shr_u (i32.sub (local.get $n) (i32.const 1)) (i32.const 4)))
    (local.set $shift (i32.sub (i32.const 28) (i32.clz (local.get $last))))
    (if (i32.lt_s (local.get $shift) (i32.const 0)) (then (local.set $shift (i32.const 0))))
    (i32.add
      (i32.shl (local.get $shift) (i32.const 3))
      (i32.shr_u (local.get $last) (local.get $shift))))

  ;; The bytes that a block of a class takes.
  (func $room (param $class i32) (result i32)
    (local $shift i32)
    (if (i32.gt_u (local.get $class) (i32.const 15))
      (then (local.set $shift (i32.sub (i32.shr_u (local.get $class) (i32.const 3)) (i32.const 1)))))
    (i32.shl
      (i32.add (i32.sub (local.get $class) (i32.shl (local.get $shift) (i32.const 3))) (i32.const 1))
      (i32.add (local.get $shift) (i32.const 4))))

  (func $list_of (param $class i32) (result i32)
    (i32.add (i32.const 64) (i32.shl (local.get $class) (i32.const 2))))

  ;; Moves the limit up to `end` or beyond. Twice as much as before if that can be had: then a million allocations
  ;; move the map a dozen times, not a million times.
  (func $make_room (param $end i32) (result i32)
    (local $twice i64) (local $most i64)
    (local.set $twice (i64.shl (i64.load32_u (i32.const 56)) (i64.const 1)))
    (local.set $most (i64.and ;; down to the 16 bytes that an entry of the map speaks of
      (i64.add (i64.load32_u (i32.const 60)) (i64.const 1024))
      (i64.const -16)))
    (if (i64.gt_u (local.get $twice) (local.get $most)) (then (local.set $twice (local.get $most))))
    (if (i64.gt_u (local.get $twice) (i64.extend_i32_u (local.get $end)))
      (then
        (if (call $move_limit (i32.wrap_i64 (local.get $twice))) (then (return (i32.const 1))))))
    (call $move_limit (local.get $end)))

  (func $move_limit (param $limit i32) (result i32)
    (local $old i32) (local $map i32) (local $pages i32)
    (local.set $pages
      (i32.sub
        (i32.shr_u
          (i32.add
            (i32.add (local.get $limit) (i32.shr_u (i32.sub (local.get $limit) (i32.const 1024)) (i32.const 2)))
            (i32.const 0xffff))
          (i32.const 16))
        (memory.size)))
    (if (i32.gt_s (local.get $pages) (i32.const 0))
      (then
        (if (i32.eq (memory.grow (local.get $pages)) (i32.const -1)) (then (return (i32.const 0))))))
    (local.set $old (i32.load (i32.const 56)))
    (local.set $map (i32.shr_u (i32.load (i32.const 0)) (i32.const 2)))
    (memory.copy (local.get $limit) (local.get $old) (local.get $map))
    (memory.fill (local.get $old) (i32.const 0) ;; here will be blocks
      (select
        (local.get $map)
        (i32.sub (local.get $limit) (local.get $old))
        (i32.lt_u (local.get $map) (i32.sub (local.get $limit) (local.get $old)))))
    (i32.store (i32.const 56) (local.get $limit))
    (i32.const 1)))
