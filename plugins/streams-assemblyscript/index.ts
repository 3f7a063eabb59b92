import { Config, Host } from '@extism/as-pdk'
import { Body, event, pause, Request, start, trailers, write } from './stream.ts'

/** Answers with the FNV-1a hash (64 bits) and the size of an upload of any size. */
export function hash(): i32 {
  const body = new Body()
  let hash: u64 = ((<u64>0xcbf29ce4) << 32) | 0x84222325
  let bytes: u64 = 0
  while (body.next()) {
    const piece = body.piece
    for (let i = 0; i < piece.length; i++) hash = (hash ^ unchecked(piece[i])) * 0x100000001b3
    bytes += piece.length
  }
  if (body.code < 0) return <i32>body.code
  Host.outputString(`${hash.toString(16).padStart(16, '0')} ${bytes.toString()}\n`)
  return 0
}

/** Passes on the lines of a CSV file that have the text of the config `keep`, and its first line. */
export function filter(): i32 {
  const keep = config('keep')
  let code = start('{"headers":{"content-type":"text/csv"},"trailers":["x-lines"]}')
  const body = new Body()
  let rest = ''
  let lines = 0
  while (code >= 0 && body.next()) {
    // One character per byte: a piece may end within a character.
    rest += latin1(body.piece)
    let from = 0
    for (let end = rest.indexOf('\n') + 1; code >= 0 && end > 0; end = rest.indexOf('\n', from) + 1) {
      const line = rest.substring(from, end)
      if (lines === 0 || line.includes(keep)) {
        code = write(bytesOf(line))
        lines++
      }
      from = end
    }
    rest = rest.substring(from)
  }
  if (code >= 0 && body.code < 0) code = body.code
  if (code >= 0 && rest.length > 0 && (lines === 0 || rest.includes(keep))) {
    code = write(bytesOf(rest))
    lines++
  }
  if (code >= 0) code = trailers(`{"x-lines":"${lines}"}`)
  return code < 0 ? <i32>code : 0
}

/** Sends a number every `interval` milliseconds (a config), up to 10, until the client has gone. */
export function count(): i32 {
  const interval = config('interval')
  const ms = interval === '' ? 1_000 : <u64>parseInt(interval, 10)
  for (let number = 1; number <= 10; number++) {
    if (event(`{"event":"count","id":"${number}","data":${number}}`) < 0) return 0 // the client has gone
    pause(ms)
  }
  return 0
}

/** Posts the body to the URL of the config `upstream`, and passes its answer back in capitals. */
export function proxy(): i32 {
  const upstream = new Request(
    `{"method":"POST","url":"${config('upstream')}","headers":{"content-type":"text/plain"}}`,
  )
  const body = new Body()
  let isMore = true
  isStarted = false
  while (isMore && upstream.code >= 0 && body.next()) {
    // A server may answer while it reads, or without reading all.
    while (isMore && !upstream.write(body.piece) && upstream.code >= 0) isMore = passBack(upstream)
  }
  if (body.code < 0) return <i32>body.code
  if (isMore && upstream.code >= 0) upstream.end()
  while (isMore && upstream.code >= 0) isMore = passBack(upstream)
  upstream.close()
  if (upstream.code >= 0) return 0
  if (isStarted) return <i32>upstream.code
  start('{"status":502}') // the client can get a proper answer
  return 0
}

/** Whether the running call has started its answer. */
let isStarted = false

/** Passes the next piece of the answer back. @returns false at its end, and if that failed. */
function passBack(upstream: Request): bool {
  if (!isStarted) {
    const head = upstream.response()
    if (upstream.code < 0 || start(head) < 0) return false
    isStarted = true
  }
  if (!upstream.next()) return false
  const piece = upstream.piece
  for (let i = 0; i < piece.length; i++) {
    const char = unchecked(piece[i])
    if (char >= 97 && char <= 122) piece[i] = char - 32
  }
  return write(piece) >= 0
}

/** One character per byte, as of the lines. */
function config(name: string): string {
  const value = Config.get(name)
  return value === null ? '' : latin1(Uint8Array.wrap(String.UTF8.encode(value)))
}

function latin1(bytes: Uint8Array): string {
  const text = new StaticArray<u16>(bytes.length)
  for (let i = 0; i < bytes.length; i++) text[i] = bytes[i]
  return String.UTF16.decodeUnsafe(changetype<usize>(text), bytes.length * 2)
}

function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length)
  for (let i = 0; i < text.length; i++) bytes[i] = <u8>text.charCodeAt(i)
  return bytes
}

// biome-ignore lint/correctness/noUnusedVariables: build.sh names it; asc's own would be imported from `env`.
function abort(_message: string | null, _file: string | null, _line: u32, _column: u32): void {
  // The trap that follows says enough.
}
