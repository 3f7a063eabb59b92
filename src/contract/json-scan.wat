;; Reads JSON by tables, in pieces. No branch depends on the value of a byte, except for escapes such as \u00e9:
;; each byte costs the same. `json-machine.ts` is its host and makes the tables.
;;
;;       0  NEXT: the next state, by state and byte, in words of 2 bytes. A state is its row's offset: 512 times its number. 0 is an error.
;;   32768  FLAGS: the effect of a step on the open arrays and objects: a byte for each word of NEXT, and an unused one.
;;   65536  The arrays and objects that are open: a byte each, whose bits are the flags that break it.
;;   73728  SAID: in the first two states after the error, the decoded text, and the number of its further bytes.
;;   75264  HEX: the values of digits; -1 for other bytes.
;;  131072  INPUT: a piece, and what comes after it: at least 12 bytes.
;;  262144  OUTPUT: the decoded text.
(module
  (memory (export "memory") 6)
  ;; State between pieces.
  (global $state (export "state") (mut i32) (i32.const 0))
  (global $depth (export "depth") (mut i32) (i32.const 0))
  (global $broken (export "broken") (mut i32) (i32.const 0))
  (global $parts (export "parts") (mut i32) (i32.const 0))
  (global $output (export "output") (mut i32) (i32.const 0))

  ;; Steps until no array or object is open, or more than $limit are and one in them, or the piece ends at $stop.
  (func (export "nested") (param $at i32) (param $stop i32) (param $limit i32) (result i32)
    (local $state i32) (local $flags i32) (local $index i32)
    (local $depth i32) (local $broken i32) (local $parts i32)
    (local.set $state (global.get $state))
    (local.set $depth (global.get $depth))
    (local.set $broken (global.get $broken))
    (local.set $parts (global.get $parts))
    (loop $step
      (local.set $index (i32.or (local.get $state) (i32.shl (i32.load8_u (local.get $at)) (i32.const 1))))
      (local.set $state (i32.load16_u (local.get $index)))
      (local.set $flags (i32.load8_s offset=32768 (local.get $index)))
      (local.set $broken
        (i32.or
          (local.get $broken)
          (i32.and
            (local.get $flags)
            (i32.or
              (i32.load8_u offset=65536 (local.get $depth))
              ;; 8 beyond the limit: there, nothing may begin
              (i32.and (i32.shr_s (i32.sub (local.get $limit) (local.get $depth)) (i32.const 31)) (i32.const 8))))))
      ;; The slot above the top is unused: the written value counts if an array or object began here.
      (i32.store8 offset=65537 (local.get $depth) (i32.shr_u (local.get $flags) (i32.const 4)))
      (local.set $parts (i32.add (local.get $parts) (i32.and (local.get $flags) (i32.const 8))))
      (local.set $depth (i32.add (local.get $depth) (i32.shr_s (local.get $flags) (i32.const 6))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $step
        (i32.and
          (i32.le_u (i32.sub (local.get $depth) (i32.const 1)) (local.get $limit))
          (i32.lt_u (local.get $at) (local.get $stop)))))
    (global.set $state (local.get $state))
    (global.set $depth (local.get $depth))
    (global.set $broken (local.get $broken))
    (global.set $parts (local.get $parts))
    (local.get $at))

  ;; Steps until a text ends, or something in it is wrong, or the piece ends at $stop; writes what it says.
  ;; An escape that begins before $stop is read to its end.
  (func (export "text") (param $at i32) (param $stop i32) (result i32)
    (local $state i32) (local $index i32) (local $output i32) (local $code i32) (local $low i32)
    (local.set $state (global.get $state))
    (local.set $output (i32.const 262144))
    (block $end
      (loop $run
        (loop $step
          (local.set $index (i32.or (local.get $state) (i32.shl (i32.load8_u (local.get $at)) (i32.const 1))))
          (local.set $state (i32.load16_u (local.get $index)))
          (i32.store8 (local.get $output) (i32.load8_u offset=73728 (local.get $index)))
          (local.set $output (i32.add (local.get $output) (i32.load8_u offset=73729 (local.get $index))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br_if $step
            (i32.and
              (i32.lt_u (i32.sub (local.get $state) (i32.const 512)) (i32.const 1024))
              (i32.lt_u (local.get $at) (local.get $stop)))))
        (br_if $end (i32.ne (local.get $state) (i32.const 1536)))
        ;; Behind \u
        (local.set $code (call $hex (local.get $at)))
        (if (i32.lt_s (local.get $code) (i32.const 0))
          (then
            (local.set $state (i32.const 0))
            (br $end)))
        (local.set $at (i32.add (local.get $at) (i32.const 4)))
        (local.set $state (i32.const 512))
        (if
          (i32.and
            (i32.eq (i32.and (local.get $code) (i32.const 0xfc00)) (i32.const 0xd800))
            (i32.eq (i32.load16_u (local.get $at)) (i32.const 0x755c)))
          (then
            (local.set $low (call $hex (i32.add (local.get $at) (i32.const 2))))
            (if (i32.eq (i32.and (local.get $low) (i32.const 0x8000fc00)) (i32.const 0xdc00))
              (then
                (local.set $code
                  (i32.add
                    (i32.shl (i32.sub (local.get $code) (i32.const 0xd800)) (i32.const 10))
                    (i32.add (i32.sub (local.get $low) (i32.const 0xdc00)) (i32.const 0x10000))))
                (i32.store8 (local.get $output)
                  (i32.or (i32.const 0xf0) (i32.shr_u (local.get $code) (i32.const 18))))
                (i32.store8 offset=1 (local.get $output)
                  (i32.or (i32.const 0x80) (i32.and (i32.shr_u (local.get $code) (i32.const 12)) (i32.const 63))))
                (i32.store8 offset=2 (local.get $output)
                  (i32.or (i32.const 0x80) (i32.and (i32.shr_u (local.get $code) (i32.const 6)) (i32.const 63))))
                (i32.store8 offset=3 (local.get $output)
                  (i32.or (i32.const 0x80) (i32.and (local.get $code) (i32.const 63))))
                (local.set $output (i32.add (local.get $output) (i32.const 4)))
                (local.set $at (i32.add (local.get $at) (i32.const 6)))
                (br_if $run (i32.lt_u (local.get $at) (local.get $stop)))
                (br $end)))))
        ;; Half a character becomes U+FFFD.
        (local.set $code
          (select
            (i32.const 0xfffd)
            (local.get $code)
            (i32.eq (i32.and (local.get $code) (i32.const 0xf800)) (i32.const 0xd800))))
        (i32.store (local.get $output)
          (select
            (local.get $code)
            (select
              (i32.or
                (i32.or (i32.const 0x80c0) (i32.shr_u (local.get $code) (i32.const 6)))
                (i32.shl (i32.and (local.get $code) (i32.const 63)) (i32.const 8)))
              (i32.or
                (i32.or
                  (i32.or (i32.const 0x8080e0) (i32.shr_u (local.get $code) (i32.const 12)))
                  (i32.shl (i32.and (i32.shr_u (local.get $code) (i32.const 6)) (i32.const 63)) (i32.const 8)))
                (i32.shl (i32.and (local.get $code) (i32.const 63)) (i32.const 16)))
              (i32.lt_u (local.get $code) (i32.const 0x800)))
            (i32.lt_u (local.get $code) (i32.const 0x80))))
        (local.set $output
          (i32.add
            (local.get $output)
            (i32.add
              (i32.const 1)
              (i32.add
                (i32.ge_u (local.get $code) (i32.const 0x80))
                (i32.ge_u (local.get $code) (i32.const 0x800))))))
        (br_if $run (i32.lt_u (local.get $at) (local.get $stop)))))
    (global.set $state (local.get $state))
    (global.set $output (local.get $output))
    (local.get $at))

  ;; Steps until a number or word ends, or the piece; the states of those are $first and all above.
  (func (export "word") (param $at i32) (param $stop i32) (param $first i32) (result i32)
    (local $state i32)
    (local.set $state (global.get $state))
    (loop $step
      (local.set $state
        (i32.load16_u (i32.or (local.get $state) (i32.shl (i32.load8_u (local.get $at)) (i32.const 1)))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $step
        (i32.and
          (i32.ge_u (local.get $state) (local.get $first))
          (i32.lt_u (local.get $at) (local.get $stop)))))
    (global.set $state (local.get $state))
    (local.get $at))

  ;; The number that four digits are; negative if they are no digits.
  (func $hex (param $at i32) (result i32)
    (i32.or
      (i32.or
        (i32.shl (i32.load8_s offset=75264 (i32.load8_u (local.get $at))) (i32.const 12))
        (i32.shl (i32.load8_s offset=75264 (i32.load8_u offset=1 (local.get $at))) (i32.const 8)))
      (i32.or
        (i32.shl (i32.load8_s offset=75264 (i32.load8_u offset=2 (local.get $at))) (i32.const 4))
        (i32.load8_s offset=75264 (i32.load8_u offset=3 (local.get $at))))))

  ;; Whether a byte is below 32; reads 8 at a time, from $at, to $stop or some more.
  (func (export "control") (param $at i32) (param $stop i32) (result i32)
    (local $bytes i64) (local $found i64)
    (loop $step
      (local.set $bytes (i64.load (local.get $at)))
      ;; https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord
      (local.set $found
        (i64.or
          (local.get $found)
          (i64.and
            (i64.sub (local.get $bytes) (i64.const 0x2020202020202020))
            (i64.and (i64.xor (local.get $bytes) (i64.const -1)) (i64.const 0x8080808080808080)))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $step (i32.lt_u (local.get $at) (local.get $stop))))
    (i64.ne (local.get $found) (i64.const 0))))
