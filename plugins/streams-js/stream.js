// wasm-serve's streams. src/lib.rs runs this file before yours, and src/host.rs has the functions of `host`.

/** The failure of an operation. `docs/write/streams.md` lists the codes; -1: the client has gone, so end the call. */
class StreamError extends Error {
  constructor(code) {
    super(`the stream failed: ${code}`)
    this.code = code
  }
}

const stream = {
  /** The next piece of the request's body, as a Uint8Array; undefined at its end. */
  read() {
    return pieceOf(host.request_read(262_144))
  },

  /** The lines of the request's body with their ends, as text: for (const line of stream.lines()) ... */
  *lines() {
    let rest = new Uint8Array()
    for (let piece = stream.read(); piece; piece = stream.read()) {
      const bytes = joined(rest, piece)
      const end = bytes.lastIndexOf(LINE_FEED) + 1
      yield* linesOf(host.decode(bytes.subarray(0, end)))
      rest = bytes.slice(end)
    }
    yield* linesOf(host.decode(rest))
  },

  /** Starts the answer. `head` is optional: { status: 200, headers: { 'content-type': 'text/csv' }, trailers: ['x-sum'] }. */
  start: (head = {}) => check(host.response_start(host.encode(JSON.stringify(head)))),

  /** Sends a text or bytes, soon. Waits while the client reads more slowly. */
  write: (data) => check(host.response_write(typeof data === 'string' ? host.encode(data) : data)),

  /** Sends now what was written. */
  flush: () => check(host.response_flush()),

  /** Sets the trailers that `start` has announced: { 'x-sum': '42' }. */
  trailers: (trailers) => check(host.response_trailers(host.encode(JSON.stringify(trailers)))),

  /** Sends an event: { event: 'tick', id: '1', data: 'text' }. The first one starts the answer. */
  event: (event) => check(host.sse(host.encode(JSON.stringify(event)))),

  /** Waits, without using up the time limit of the call. */
  pause: (ms) => check(host.wait(ms)),

  isGone: () => host.client_gone() !== 0,

  /** Begins a request to another server: { method: 'PUT', url: 'https://example.com/', headers: { 'x-a': '1' } }. */
  open: (request) => new Request(check(host.http_open(host.encode(JSON.stringify(request))))),
}

/** A request to another server. The end of the call closes it. */
class Request {
  constructor(handle) {
    this.handle = handle
  }

  /** Sends a piece of the body, of up to 256 KiB. Waits while the server reads more slowly. false: read the answer first. */
  write(piece) {
    return piece.length === 0 || check(host.http_write(this.handle, piece)) === 0
  }

  /** Ends the body. A wait for the answer does so, too. */
  end() {
    check(host.http_end(this.handle))
  }

  /** Status and headers of the answer, which `stream.start` takes. */
  response() {
    return JSON.parse(host.decode(pieceOf(host.http_response(this.handle))))
  }

  /** The next piece of the answer; undefined at its end. */
  read() {
    return pieceOf(host.http_read(this.handle, 262_144))
  }

  close() {
    check(host.http_close(this.handle))
  }
}

const LINE_FEED = 10

function check(code) {
  if (code < 0) throw new StreamError(code)
  return code
}

/** Bytes, or undefined if there are none. */
function pieceOf(result) {
  if (typeof result !== 'number') return result
  check(result)
  return undefined
}

function joined(first, second) {
  if (first.length === 0) return second
  const bytes = new Uint8Array(first.length + second.length)
  bytes.set(first)
  bytes.set(second, first.length)
  return bytes
}

function* linesOf(text) {
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf('\n', from) + 1 || text.length
    yield text.slice(from, end)
    from = end
  }
}
