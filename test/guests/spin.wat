;; Runs as many loops of a million turns as its input has bytes.
(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (func (export "spin") (result i32)
    (local $turns i64)
    (local.set $turns (i64.mul (call $input_length) (i64.const 1000000)))
    (block $end
      (loop $next
        (br_if $end (i64.eqz (local.get $turns)))
        (local.set $turns (i64.sub (local.get $turns) (i64.const 1)))
        (br $next)))
    (i32.const 0)))
