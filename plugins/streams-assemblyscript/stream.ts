import { Host, Memory } from '@extism/as-pdk'

// wasm-serve's streams: copy this file into your plug-in. `docs/guide/streams.md` lists the codes of failures.

@external("wasm-serve:http", "request_read")
declare function request_read(max: u64): i64
@external("wasm-serve:http", "response_start")
declare function response_start(head: u64): i64
@external("wasm-serve:http", "response_write")
declare function response_write(block: u64): i64
@external("wasm-serve:http", "response_trailers")
declare function response_trailers(trailers: u64): i64
@external("wasm-serve:http", "sse")
declare function sse(event: u64): i64
@external("wasm-serve:http", "wait")
declare function wait_ms(ms: u64): i64

/** The request's body, piece by piece. */
export class Body {
  /** The last piece; empty at the end. */
  piece: Uint8Array = new Uint8Array(0)
  /** Below 0: why the last read failed. */
  code: i64 = 0

  /** Reads the next piece. @returns false at the end, and if it failed. */
  next(): bool {
    this.code = request_read(65_536)
    if (this.code <= 0) return false
    this.piece = Host.input() // a piece is also the input of the call
    return true
  }
}

/** Starts the answer. `head` is JSON: `{"status":200,"headers":{},"trailers":[]}`. */
export function start(head: string): i64 {
  return response_start(Memory.allocateString(head).offset)
}

/** Sends bytes, soon. Waits while the client reads more slowly. */
export function write(bytes: Uint8Array): i64 {
  return bytes.length === 0 ? 0 : response_write(Memory.allocateBytes(bytes).offset)
}

/** Sets the trailers that `start` has announced, as JSON. */
export function trailers(json: string): i64 {
  return response_trailers(Memory.allocateString(json).offset)
}

/** Sends an event: `{"event":"tick","id":"1","data":"text"}`. The first one starts the answer. */
export function event(json: string): i64 {
  const block = Memory.allocateString(json)
  const code = sse(block.offset)
  block.free()
  return code
}

/** Waits, without using up the time limit of the call. */
export function pause(ms: u64): i64 {
  return wait_ms(ms)
}
