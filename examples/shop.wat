;; Asks the host what the thing costs that its input names, and answers with that. As text, so that it can be read
;; here; in Rust it would be `#[host_fn] extern "ExtismHost" { fn price_of(name: String) -> String; }` and a call of it.
;; shop.wasm is made of it by `wat2wasm --debug-names` (npm package wabt).
(module
  (import "extism:host/user" "price_of" (func $price_of (param i64) (result i64)))
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "price") (result i32)
    (local $price i64)
    (local.set $price (call $price_of (call $input_offset)))
    (call $output_set (local.get $price) (call $length (local.get $price)))
    (i32.const 0)))
