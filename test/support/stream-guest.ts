import { onTestFinished } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import type { RouteOptions, ServerOptions } from '../../src/options/options.ts'
import { guestBytes } from './guest.ts'
import { listenAll } from './serve.ts'

/** A step of a guest. It logs the code that the function returns; for `read`, the length of the piece. */
export type Step =
  | readonly ['read', max: number]
  | readonly ['start' | 'write' | 'trailers' | 'sse', text: string]
  /** With an offset where no block begins. */
  | readonly ['start at' | 'write at', offset: number]
  /** A block of zeros of this size. */
  | readonly ['write zeros', bytes: number]
  | readonly ['wait', ms: number]
  | readonly ['flush' | 'gone' | 'trap' | 'spin']
  /** Of requests to other servers. The handles of a call are 1, 2, ... */
  | readonly ['http open', json: string]
  | readonly ['http write', handle: number, text: string]
  | readonly ['http write zeros', handle: number, bytes: number]
  | readonly ['http end' | 'http close', handle: number]
  /** Logs the head itself. */
  | readonly ['http response', handle: number]
  /** Logs the length of the piece. */
  | readonly ['http read', handle: number, max: number]
  /** Writes all of the response to the answer, and logs the last code. */
  | readonly ['http pass', handle: number]
  /** The output of the call. */
  | readonly ['output' | 'error', text: string]
  | Repeat

interface Repeat {
  readonly repeat: number
  readonly steps: readonly Step[]
}

/** A guest whose export `run` takes these steps. */
export function streamGuest(...steps: readonly Step[]): Uint8Array {
  const texts: string[] = []
  let depth = 0
  const block = (text: string) => {
    const at = Buffer.concat(texts.map((each) => Buffer.from(each))).length
    texts.push(text)
    return `(call $block (i32.const ${TEXTS + at}) (i32.const ${Buffer.byteLength(text)}))`
  }
  const code = (step: Step): string => {
    if ('repeat' in step) {
      const name = `$i${depth++}`
      const body = step.steps.map(code).join('\n')
      depth--
      return `(local.set ${name} (i32.const ${step.repeat}))
        (loop ${name} ${body}
          (local.set ${name} (i32.sub (local.get ${name}) (i32.const 1)))
          (br_if ${name} (local.get ${name})))`
    }
    switch (step[0]) {
      case 'read':
        return `(call $said_length (call $read (i64.const ${step[1]})))`
      case 'start':
      case 'write':
      case 'trailers':
      case 'sse':
        return `(call $said (call $${step[0]} ${block(step[1])}))`
      case 'start at':
        return `(call $said (call $start (i64.const ${step[1]})))`
      case 'write at':
        return `(call $said (call $write (i64.const ${step[1]})))`
      case 'write zeros':
        return `(call $said (call $write (call $alloc (i64.const ${step[1]}))))`
      case 'wait':
        return `(call $said (call $wait (i64.const ${step[1]})))`
      case 'flush':
        return '(call $said (call $flush))'
      case 'gone':
        return '(call $said (i64.extend_i32_s (call $gone)))'
      case 'trap':
        return 'unreachable'
      case 'spin':
        return '(loop $for_ever (br $for_ever))'
      case 'http open':
        return `(call $said (call $http_open ${block(step[1])}))`
      case 'http write':
        return `(call $said (call $http_write (i64.const ${step[1]}) ${block(step[2])}))`
      case 'http write zeros':
        return `(call $said (call $http_write (i64.const ${step[1]}) (call $alloc (i64.const ${step[2]}))))`
      case 'http end':
        return `(call $said (call $http_write (i64.const ${step[1]}) (i64.const 0)))`
      case 'http close':
        return `(call $said (call $http_close (i64.const ${step[1]})))`
      case 'http response':
        return `(call $said_text (call $http_response (i64.const ${step[1]})))`
      case 'http read':
        return `(call $said_length (call $http_read (i64.const ${step[1]}) (i64.const ${step[2]})))`
      case 'http pass':
        return `(call $http_pass (i64.const ${step[1]}))`
      case 'output':
        return `(local.set $at ${block(step[1])}) (call $output (local.get $at) (call $length (local.get $at)))`
      case 'error':
        return `(call $error ${block(step[1])})`
    }
  }
  const body = steps.map(code).join('\n')
  const hasRequests = body.includes('$http_') // others should not import what they do not use
  const bytes = Buffer.from(texts.join(''))
  const data = [...bytes].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`)
  return guestBytes(`(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "free" (func $free (param i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (import "extism:host/env" "error_set" (func $error (param i64)))
  (import "extism:host/env" "log_info" (func $log (param i64)))
  (import "wasm-serve:http" "request_read" (func $read (param i64) (result i64)))
  (import "wasm-serve:http" "response_start" (func $start (param i64) (result i64)))
  (import "wasm-serve:http" "response_write" (func $write (param i64) (result i64)))
  (import "wasm-serve:http" "response_flush" (func $flush (result i64)))
  (import "wasm-serve:http" "response_trailers" (func $trailers (param i64) (result i64)))
  (import "wasm-serve:http" "sse" (func $sse (param i64) (result i64)))
  (import "wasm-serve:http" "wait" (func $wait (param i64) (result i64)))
  (import "wasm-serve:http" "client_gone" (func $gone (result i32)))
  ${hasRequests ? REQUEST_IMPORTS : ''}
  (memory (export "memory") ${Math.ceil((TEXTS + bytes.length) / 65_536)})
  (data (i32.const ${TEXTS}) "${data.join('')}")
  (func $block (param $from i32) (param $bytes i32) (result i64) (local $at i64) (local $i i32)
    (local.set $at (call $alloc (i64.extend_i32_u (local.get $bytes))))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (local.get $bytes)))
      (call $store (i64.add (local.get $at) (i64.extend_i32_u (local.get $i)))
        (i32.load8_u (i32.add (local.get $from) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (local.get $at))
  ;; Logs a number in decimal.
  (func $said (param $n i64) (local $at i32) (local $sign i32) (local $line i64)
    (local.set $at (i32.const 32))
    (if (i64.lt_s (local.get $n) (i64.const 0)) (then
      (local.set $sign (i32.const 1))
      (local.set $n (i64.sub (i64.const 0) (local.get $n)))))
    (loop $more
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at)
        (i32.wrap_i64 (i64.add (i64.const 48) (i64.rem_u (local.get $n) (i64.const 10)))))
      (local.set $n (i64.div_u (local.get $n) (i64.const 10)))
      (br_if $more (i64.ne (local.get $n) (i64.const 0))))
    (if (local.get $sign) (then
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.const 45))))
    (local.set $line (call $block (local.get $at) (i32.sub (i32.const 32) (local.get $at))))
    (call $log (local.get $line))
    (call $free (local.get $line)))
  (func $said_length (param $at i64)
    (if (i64.gt_s (local.get $at) (i64.const 0)) (then (local.set $at (call $length (local.get $at)))))
    (call $said (local.get $at)))
  ${hasRequests ? REQUEST_FUNCTIONS : ''}
  (func (export "run") (result i32) (local $at i64) (local $i0 i32) (local $i1 i32)
    ${body}
    (i32.const 0)))`)
}

const TEXTS = 64

const REQUEST_IMPORTS = `
  (import "wasm-serve:http" "http_open" (func $http_open (param i64) (result i64)))
  (import "wasm-serve:http" "http_write" (func $http_write (param i64 i64) (result i64)))
  (import "wasm-serve:http" "http_response" (func $http_response (param i64) (result i64)))
  (import "wasm-serve:http" "http_read" (func $http_read (param i64 i64) (result i64)))
  (import "wasm-serve:http" "http_close" (func $http_close (param i64) (result i64)))`

const REQUEST_FUNCTIONS = `
  (func $said_text (param $at i64)
    (if (i64.gt_s (local.get $at) (i64.const 0))
      (then (call $log (local.get $at)) (call $free (local.get $at)))
      (else (call $said (local.get $at)))))
  (func $http_pass (param $handle i64) (local $at i64)
    (block $done (loop $next
      (local.set $at (call $http_read (local.get $handle) (i64.const 65536)))
      (br_if $done (i64.le_s (local.get $at) (i64.const 0)))
      (local.set $at (call $write (local.get $at)))
      (br_if $next (i64.eqz (local.get $at)))))
    (call $said (local.get $at)))`

/** A line of a log. */
export interface LogLine {
  readonly level: string
  readonly msg: string
  readonly code?: string
}

/** A server with a guest that takes these steps for any request. */
export async function serveSteps(
  steps: readonly Step[],
  route: Partial<RouteOptions> = {},
  server: Partial<ServerOptions> = {},
) {
  const lines: LogLine[] = []
  const news = new EventTarget()
  const write = (line: string) => {
    lines.push(JSON.parse(line))
    news.dispatchEvent(new Event('line'))
  }
  const nextLine = () => new Promise((resolve) => news.addEventListener('line', resolve, { once: true }))
  const method = route.contract === 'websocket' ? {} : { method: '*' as const }
  const one = { plugin: streamGuest(...steps), workers: 1, spareWorkers: 0, ...method, ...route }
  const running = await listenAll([one], server, openLog('debug', { lines: { write } }))
  onTestFinished(() => running.drain())
  return {
    ...running,
    lines,
    /** Waits until guests have logged this number of codes, and returns all. */
    async codes(count = 0): Promise<number[]> {
      for (;;) {
        const codes = lines.flatMap(({ msg }) => (/^-?\d+$/.test(msg) ? [Number(msg)] : []))
        if (codes.length >= count) return codes
        await nextLine()
      }
    },
    /** Waits for a line. */
    async line(fits: (line: LogLine) => boolean): Promise<LogLine> {
      for (;;) {
        const found = lines.find(fits)
        if (found) return found
        await nextLine()
      }
    },
  }
}
