;; Does harm, as the first byte of its input says; else it echoes.
;;   A: takes blocks until there is no room        O: reads beyond its memory
;;   B: grows its table as far as it goes          P: answers with 16 MiB
;;   C: logs its input                             R: recurses for ever
;;   D: divides by zero                            S: sets the variable "v" to its input
;;   E: sets an error                              T: traps
;;   F: fills all the memory there is, and answers U: answers with the variable "v"
;;   H: gives its input to the host                V: logs for ever
;;   L: never returns                              W: works for some milliseconds
;;   M: like F, and traps                          X: reads a block that is none
;;   N: returns 7                                  1: takes a million blocks, and answers
(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "extism:host/env" "error_set" (func $error_set (param i64)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "load_u8" (func $load_u8 (param i64) (result i32)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "log_info" (func $log_info (param i64)))
  (import "extism:host/env" "var_get" (func $var_get (param i64) (result i64)))
  (import "extism:host/env" "var_set" (func $var_set (param i64 i64)))
  (import "env" "relay" (func $relay (param i64) (result i64)))
  (memory (export "memory") 1)
  (table $table 1 funcref)
  (func $recurse (param i32) (result i32)
    (i32.add (call $recurse (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func $work
    (local $i i32)
    (local.set $i (i32.const 8000000))
    (loop $again
      (local.set $i (i32.sub (local.get $i) (i32.const 1)))
      (br_if $again (local.get $i))))
  (func $fill
    (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    (memory.fill (i32.const 0) (i32.const 1) (i32.mul (memory.size) (i32.const 65536))))
  (func $million
    (local $i i32)
    (local.set $i (i32.const 1000000))
    (loop $again
      (drop (call $alloc (i64.const 8)))
      (local.set $i (i32.sub (local.get $i) (i32.const 1)))
      (br_if $again (local.get $i))))
  (func $v (result i64)
    (local $name i64)
    (local.set $name (call $alloc (i64.const 1)))
    (call $store_u8 (local.get $name) (i32.const 118))
    (local.get $name))
  (func $answer (param $block i64) (call $output_set (local.get $block) (call $length (local.get $block))))
  (func $is (param $letter i32) (result i32)
    (if (result i32) (i64.eqz (call $input_length))
      (then (i32.const 0))
      (else (i32.eq (call $input_load_u8 (i64.const 0)) (local.get $letter)))))
  (func (export "run") (result i32)
    (call $answer (call $input_offset))
    (if (call $is (i32.const 65))
      (then (loop $more (br_if $more (i64.ne (call $alloc (i64.const 1048576)) (i64.const 0)))) (unreachable)))
    (if (call $is (i32.const 66))
      (then
        (loop $more (br_if $more (i32.ne (table.grow $table (ref.null func) (i32.const 10000)) (i32.const -1))))
        (unreachable)))
    (if (call $is (i32.const 67)) (then (call $log_info (call $input_offset))))
    (if (call $is (i32.const 68)) (then (drop (i32.div_s (i32.const 1) (i32.const 0)))))
    (if (call $is (i32.const 69)) (then (call $error_set (call $input_offset))))
    (if (call $is (i32.const 70)) (then (call $fill)))
    (if (call $is (i32.const 72)) (then (call $answer (call $relay (call $input_offset)))))
    (if (call $is (i32.const 76)) (then (loop $for_ever (br $for_ever))))
    (if (call $is (i32.const 77)) (then (call $fill) (unreachable)))
    (if (call $is (i32.const 78)) (then (return (i32.const 7))))
    (if (call $is (i32.const 79)) (then (drop (i32.load (i32.const -8)))))
    (if (call $is (i32.const 80))
      (then (call $output_set (call $alloc (i64.const 0x1000000)) (i64.const 0x1000000))))
    (if (call $is (i32.const 82)) (then (drop (call $recurse (i32.const 0)))))
    (if (call $is (i32.const 83)) (then (call $var_set (call $v) (call $input_offset))))
    (if (call $is (i32.const 84)) (then (unreachable)))
    (if (call $is (i32.const 85)) (then (call $answer (call $var_get (call $v)))))
    (if (call $is (i32.const 86)) (then (loop $for_ever (call $log_info (call $input_offset)) (br $for_ever))))
    (if (call $is (i32.const 87)) (then (call $work)))
    (if (call $is (i32.const 88)) (then (drop (call $load_u8 (i64.const -1)))))
    (if (call $is (i32.const 49)) (then (call $million)))
    (i32.const 0)))
