import { bytesOf } from './bytes.js'

/* The modules of wasm-serve that scripts can import. */

/** The failure of an operation: docs/write/streams.md lists the codes. -1: the client has gone, so end the call. */
export class StreamError extends Error {
  constructor(code) {
    super(`the stream failed: ${code}`)
    this.name = 'StreamError'
    this.code = code
  }
}

const PIECE = 262_144

const jsonOf = (value) => bytesOf(JSON.stringify(value))

function checked(code) {
  if (code < 0) throw new StreamError(code)
  return code
}

/** Bytes, or undefined if there are none. */
function pieceOf(result) {
  if (typeof result !== 'number') return result
  checked(result)
  return undefined
}

export const stream = {
  read: () => pieceOf(host.requestRead(PIECE)),
  *[Symbol.iterator]() {
    for (let piece = stream.read(); piece; piece = stream.read()) yield piece
  },
  *lines() {
    const decoder = new TextDecoder()
    let rest = ''
    for (const piece of stream) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split(/(?<=\n)/)
      rest = lines.at(-1)?.endsWith('\n') ? '' : (lines.pop() ?? '')
      yield* lines
    }
    rest += decoder.decode()
    if (rest !== '') yield rest
  },
  start: (head = {}) => void checked(host.responseStart(jsonOf(head))),
  write: (data) => void checked(host.responseWrite(bytesOf(data))),
  flush: () => void checked(host.responseFlush()),
  trailers: (trailers) => void checked(host.responseTrailers(jsonOf(trailers))),
  event: (event) => void checked(host.sse(jsonOf(event))),
  pause: (ms) => void checked(host.wait(ms)),
  get isGone() {
    return host.clientGone() !== 0
  },
  open: (request) => new StreamedRequest(checked(host.httpOpen(jsonOf(request)))),
}

class StreamedRequest {
  #handle
  constructor(handle) {
    this.#handle = handle
  }
  write(data) {
    const bytes = bytesOf(data)
    return bytes.length === 0 || checked(host.httpWrite(this.#handle, bytes)) === 0
  }
  end() {
    checked(host.httpWrite(this.#handle))
  }
  response() {
    return JSON.parse(host.decode(pieceOf(host.httpResponse(this.#handle)), false))
  }
  read() {
    return pieceOf(host.httpRead(this.#handle, PIECE))
  }
  *[Symbol.iterator]() {
    for (let piece = this.read(); piece; piece = this.read()) yield piece
  }
  close() {
    checked(host.httpClose(this.#handle))
  }
}

const TEXT = 1
const BINARY = 2
const ENDED = -1

export const socket = {
  receive: () => {
    const message = host.wsReceive()
    if (message === ENDED) return undefined
    const bytes = pieceOf(message) ?? new Uint8Array()
    return host.wsKind() === TEXT ? host.decode(bytes, false) : bytes
  },
  *[Symbol.iterator]() {
    for (let message = socket.receive(); message !== undefined; message = socket.receive()) yield message
  },
  send: (data) => void checked(host.wsSend(bytesOf(data), typeof data === 'string' ? TEXT : BINARY)),
  close: (code = 1000, reason = '') => void checked(host.wsClose(code, bytesOf(reason))),
}
