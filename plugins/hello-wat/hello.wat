(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\"message\":\"\f0\9f\a6\80 Hello ")
  (data (i32.const 32) "0123456789abcdef")
  (global $begin_length i32 (i32.const 23))
  (global $hex i32 (i32.const 32))
  ;; Where the next byte of the output goes.
  (global $at (mut i64) (i64.const 0))

  (func $put (param $byte i32)
    (call $store_u8 (global.get $at) (local.get $byte))
    (global.set $at (i64.add (global.get $at) (i64.const 1))))

  (func $put_begin
    (local $i i32)
    (loop $next
      (call $put (i32.load8_u (local.get $i)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (global.get $begin_length)))))

  (func $put_hex (param $digit i32)
    (call $put (i32.load8_u (i32.add (global.get $hex) (local.get $digit)))))

  (func $is_control (param $byte i32) (result i32)
    (i32.lt_u (local.get $byte) (i32.const 0x20)))

  ;; Quotes and backslashes.
  (func $is_escaped (param $byte i32) (result i32)
    (i32.or
      (i32.eq (local.get $byte) (i32.const 0x22))
      (i32.eq (local.get $byte) (i32.const 0x5c))))

  ;; Bytes that a byte of text takes in a JSON string.
  (func $json_length (param $byte i32) (result i64)
    (if (call $is_control (local.get $byte)) (then (return (i64.const 6))))
    (if (call $is_escaped (local.get $byte)) (then (return (i64.const 2))))
    (i64.const 1))

  (func $put_json (param $byte i32)
    (if (call $is_control (local.get $byte))
      (then
        (call $put (i32.const 0x5c))
        (call $put (i32.const 0x75)) ;; u
        (call $put (i32.const 0x30))
        (call $put (i32.const 0x30))
        (call $put_hex (i32.shr_u (local.get $byte) (i32.const 4)))
        (call $put_hex (i32.and (local.get $byte) (i32.const 15))))
      (else
        (if (call $is_escaped (local.get $byte)) (then (call $put (i32.const 0x5c))))
        (call $put (local.get $byte)))))

  ;; Greets whoever the input names. The input is read twice: what the output takes has to be known before it is made.
  (func (export "hello") (result i32)
    (local $length i64) (local $i i64) (local $output i64) (local $output_length i64)
    (local.set $length (call $input_length))
    (local.set $output_length (i64.add (i64.extend_i32_u (global.get $begin_length)) (i64.const 2)))
    (block $measured
      (loop $next
        (br_if $measured (i64.ge_u (local.get $i) (local.get $length)))
        (local.set $output_length
          (i64.add (local.get $output_length) (call $json_length (call $input_load_u8 (local.get $i)))))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $next)))

    (local.set $output (call $alloc (local.get $output_length)))
    (global.set $at (local.get $output))
    (call $put_begin)
    (local.set $i (i64.const 0))
    (block $written
      (loop $next
        (br_if $written (i64.ge_u (local.get $i) (local.get $length)))
        (call $put_json (call $input_load_u8 (local.get $i)))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $next)))
    (call $put (i32.const 0x22))
    (call $put (i32.const 0x7d)) ;; }
    (call $output_set (local.get $output) (local.get $output_length))
    (i32.const 0)))
