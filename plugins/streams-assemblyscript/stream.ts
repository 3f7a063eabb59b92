import { Host, Memory } from '@extism/as-pdk'

// wasm-serve's streams: copy this file into your plug-in. `docs/write/streams.md` lists the codes of failures.

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
@external("wasm-serve:http", "http_open")
declare function http_open(request: u64): i64
@external("wasm-serve:http", "http_write")
declare function http_write(request: i64, block: u64): i64
@external("wasm-serve:http", "http_response")
declare function http_response(request: i64): i64
@external("wasm-serve:http", "http_read")
declare function http_read(request: i64, max: u64): i64
@external("wasm-serve:http", "http_close")
declare function http_close(request: i64): i64
@external("extism:host/env", "length")
declare function length(block: u64): u64

/** The request's body, piece by piece. */
export class Body {
  /** The last piece; empty at the end. */
  piece: Uint8Array = new Uint8Array(0)
  /** Below 0: why the last read failed. */
  code: i64 = 0

  /** Reads the next piece. @returns false at the end, and if it failed. */
  next(): bool {
    this.code = request_read(262_144)
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

/** A request to another server. `code` is below 0 if its last operation failed. */
export class Request {
  code: i64
  /** The last piece of the answer; empty at the end. */
  piece: Uint8Array = new Uint8Array(0)
  private handle: i64

  /** `json` is `{"url":"https://example.com/","method":"PUT","headers":{"x-a":"1"}}`. */
  constructor(json: string) {
    const block = Memory.allocateString(json)
    this.handle = http_open(block.offset)
    this.code = this.handle
    block.free()
  }

  /** Sends a piece of the body, of up to 256 KiB. @returns false: nothing was sent, as the answer has to be read first. */
  write(bytes: Uint8Array): bool {
    if (bytes.length === 0) return true
    const block = Memory.allocateBytes(bytes)
    this.code = http_write(this.handle, block.offset)
    if (this.code !== 0) block.free()
    return this.code === 0
  }

  /** Ends the body. A wait for the answer does so, too. */
  end(): void {
    this.code = http_write(this.handle, 0)
  }

  /** Status and headers of the answer, as JSON that `start` takes. */
  response(): string {
    this.code = http_response(this.handle)
    return this.code > 0 ? String.UTF8.decode(this.take().buffer) : ''
  }

  /** Reads the next piece of the answer. @returns false at the end, and if it failed. */
  next(): bool {
    this.code = http_read(this.handle, 262_144)
    if (this.code <= 0) return false
    this.piece = this.take()
    return true
  }

  close(): void {
    http_close(this.handle)
  }

  private take(): Uint8Array {
    const block = new Memory(this.code, length(this.code))
    const bytes = block.toUint8Array()
    block.free()
    return bytes
  }
}
