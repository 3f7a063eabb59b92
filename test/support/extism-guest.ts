import { guestBytes } from './guest.ts'

const TYPES = {
  alloc: '(param i64) (result i64)',
  free: '(param i64)',
  length: '(param i64) (result i64)',
  load_u8: '(param i64) (result i32)',
  store_u8: '(param i64 i32)',
  store_u64: '(param i64 i64)',
  input_offset: '(result i64)',
  input_length: '(result i64)',
  input_load_u8: '(param i64) (result i32)',
  output_set: '(param i64 i64)',
  error_set: '(param i64)',
  config_get: '(param i64) (result i64)',
  var_get: '(param i64) (result i64)',
  var_set: '(param i64 i64)',
  http_request: '(param i64 i64) (result i64)',
  http_status_code: '(result i32)',
  http_headers: '(result i64)',
  get_log_level: '(result i32)',
  log_trace: '(param i64)',
  log_debug: '(param i64)',
  log_info: '(param i64)',
  log_warn: '(param i64)',
  log_error: '(param i64)',
}

/**
 * A module that imports the functions of Extism that it calls, and has helpers: `$answer` makes a block the
 * output, `$copy` makes one of the input, and `$text` one of a string in its memory.
 *
 * @param text - Fields of the module, as WebAssembly text. `$n` of Extism's functions are declared if they are called.
 */
export function extismGuest(text: string): Uint8Array<ArrayBuffer> {
  const helpers = `
    (func $answer (param $at i64) (call $output_set (local.get $at) (call $length (local.get $at))))
    (func $copy (result i64)
      (local $block i64) (local $i i64)
      (local.set $block (call $alloc (call $input_length)))
      (block $done
        (loop $next
          (br_if $done (i64.ge_u (local.get $i) (call $input_length)))
          (call $store_u8 (i64.add (local.get $block) (local.get $i)) (call $input_load_u8 (local.get $i)))
          (local.set $i (i64.add (local.get $i) (i64.const 1)))
          (br $next)))
      (local.get $block))
    (func $text (param $from i32) (param $length i32) (result i64)
      (local $block i64) (local $i i32)
      (local.set $block (call $alloc (i64.extend_i32_u (local.get $length))))
      (block $done
        (loop $next
          (br_if $done (i32.ge_u (local.get $i) (local.get $length)))
          (call $store_u8
            (i64.add (local.get $block) (i64.extend_i32_u (local.get $i)))
            (i32.load8_u (i32.add (local.get $from) (local.get $i))))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $next)))
      (local.get $block))`
  const imports = Object.entries(TYPES).flatMap(([name, type]) =>
    new RegExp(`\\$${name}\\b`).test(text + helpers)
      ? [`(import "extism:host/env" "${name}" (func $${name} ${type}))`]
      : [],
  )
  const own = [...text.matchAll(/^\s*\(import .*$/gm)].map(([line]) => line)
  const rest = text.replaceAll(/^\s*\(import .*$/gm, '')
  const memory =
    rest.includes('(memory') || own.some((line) => line.includes('(memory'))
      ? ''
      : '(memory (export "memory") 1)'
  return new Uint8Array(
    guestBytes(`(module ${imports.join(' ')} ${own.join(' ')} ${memory} ${helpers} ${rest})`),
  )
}
