;; A guest that streams a request to another server, and needs no exchange. Its input is the JSON of the request.
;;
;; head: returns the head of the answer. size: returns the number of bytes of the answer's body in decimal. Both return the
;; code in decimal if something fails.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "free" (func $free (param i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "input_offset" (func $input (result i64)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (import "wasm-serve:http" "http_open" (func $http_open (param i64) (result i64)))
  (import "wasm-serve:http" "http_response" (func $http_response (param i64) (result i64)))
  (import "wasm-serve:http" "http_read" (func $http_read (param i64 i64) (result i64)))
  (memory 1)
  ;; Sets the output to a number in decimal.
  (func $answer (param $n i64) (local $at i64) (local $digit i64) (local $isBelow i32)
    (local.set $at (call $alloc (i64.const 24)))
    (local.set $digit (i64.const 24))
    (if (i64.lt_s (local.get $n) (i64.const 0)) (then
      (local.set $isBelow (i32.const 1))
      (local.set $n (i64.sub (i64.const 0) (local.get $n)))))
    (loop $more
      (local.set $digit (i64.sub (local.get $digit) (i64.const 1)))
      (call $store (i64.add (local.get $at) (local.get $digit))
        (i32.wrap_i64 (i64.add (i64.const 48) (i64.rem_u (local.get $n) (i64.const 10)))))
      (local.set $n (i64.div_u (local.get $n) (i64.const 10)))
      (br_if $more (i64.ne (local.get $n) (i64.const 0))))
    (if (local.get $isBelow) (then
      (local.set $digit (i64.sub (local.get $digit) (i64.const 1)))
      (call $store (i64.add (local.get $at) (local.get $digit)) (i32.const 45))))
    (call $output (i64.add (local.get $at) (local.get $digit)) (i64.sub (i64.const 24) (local.get $digit))))
  (func (export "head") (result i32) (local $at i64)
    (local.set $at (call $http_open (call $input)))
    (if (i64.gt_s (local.get $at) (i64.const 0)) (then (local.set $at (call $http_response (local.get $at)))))
    (if (i64.gt_s (local.get $at) (i64.const 0))
      (then (call $output (local.get $at) (call $length (local.get $at))))
      (else (call $answer (local.get $at))))
    (i32.const 0))
  (func (export "size") (result i32) (local $request i64) (local $at i64) (local $sum i64)
    (local.set $request (call $http_open (call $input)))
    (local.set $at (local.get $request))
    (block $done
      (loop $next
        (br_if $done (i64.le_s (local.get $at) (i64.const 0)))
        (local.set $at (call $http_read (local.get $request) (i64.const 65536)))
        (br_if $done (i64.le_s (local.get $at) (i64.const 0)))
        (local.set $sum (i64.add (local.get $sum) (call $length (local.get $at))))
        (call $free (local.get $at))
        (br $next)))
    (call $answer (select (local.get $sum) (local.get $at) (i64.eqz (local.get $at))))
    (i32.const 0)))
