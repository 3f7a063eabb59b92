import { once } from 'node:events'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import type { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Exchange, ExchangeAnswer, ExchangeConnection } from './exchanges.ts'

/** Pause of slow clients, in milliseconds. */
const PAUSE_MS = 1

/** Size of a chunk, and of what a slow client sends or reads between two pauses. */
const PIECE_BYTES = 40_000

/** A connection of HTTP/1.1, which pipelines. @param socket - Connected. */
export function exchangeOverHttp1(socket: Socket, isSlow: boolean): ExchangeConnection {
  const waiting: { resolve(answer: ExchangeAnswer): void; reject(error: Error): void }[] = []
  let pieces: Buffer[] = []
  let held = 0
  /** Bytes that the next step needs: unknown within a head. */
  let needed = 0
  let head: { readonly status: number; readonly id: string | undefined } | undefined

  const readOn = () => {
    while (held > 0 || head) {
      if (head && held < needed) return
      const all = pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces)
      pieces = [all]
      if (!head) {
        const end = all.indexOf('\r\n\r\n')
        if (end < 0) return
        const text = all.toString('latin1', 0, end)
        head = { status: Number(text.slice(9, 12)), id: /^x-request-id: (.*)$/im.exec(text)?.[1] }
        needed = Number(/^content-length: (\d+)$/im.exec(text)?.[1])
        keep(all.subarray(end + 4))
      } else {
        const answer = { ...head, body: all.subarray(0, needed) }
        head = undefined
        keep(all.subarray(needed))
        waiting.shift()?.resolve(answer)
      }
    }
  }
  const keep = (rest: Buffer) => {
    pieces = [rest]
    held = rest.length
  }
  socket.on('data', (bytes) => {
    pieces.push(bytes)
    held += bytes.length
    readOn()
  })
  if (isSlow) readSlowly(socket)
  let failure: Error | undefined
  socket.on('error', (error) => (failure = error))
  socket.on('close', () => {
    for (const { reject } of waiting) reject(failure ?? new Error('the connection was closed'))
  })
  return {
    async send(exchange) {
      const answer = new Promise<ExchangeAnswer>((resolve, reject) => waiting.push({ resolve, reject }))
      answer.catch(() => undefined) // whoever gets it handles it
      if (socket.destroyed) waiting.pop()?.reject(failure ?? new Error('the connection was closed'))
      const { path, id, body, isChunked } = exchange
      const framing = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`
      socket.cork()
      socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${id}\r\n${framing}\r\n\r\n`)
      process.nextTick(() => socket.uncork())
      for await (const piece of piecesOf(exchange, socket)) {
        if (isChunked) socket.write(`${piece.length.toString(16)}\r\n`)
        socket.write(piece)
        if (isChunked) socket.write('\r\n')
      }
      if (isChunked) socket.write('0\r\n\r\n')
      return { answer }
    },
    close: () => socket.destroy(),
  }
}

/** A connection of HTTP/2. */
export async function exchangeOverHttp2(
  port: number,
  ca: string,
  isSlow: boolean,
): Promise<ExchangeConnection> {
  const session = connectHttp2(`https://localhost:${port}`, {
    ca,
    host: '127.0.0.1',
    servername: 'localhost',
  })
  session.on('error', () => undefined) // its streams fail too
  await once(session, 'connect')
  return {
    send: (exchange) => sendStream(session, exchange, isSlow),
    close: () => session.destroy(),
  }
}

async function sendStream(session: ClientHttp2Session, exchange: Exchange, isSlow: boolean) {
  const { path, id, body, isChunked } = exchange
  const length = isChunked ? {} : { 'content-length': body.length }
  const stream = session.request({ ':method': 'POST', ':path': path, 'x-request-id': id, ...length })
  const answer = Promise.all([once(stream, 'response'), receive(stream, isSlow)]).then(
    ([[headers], received]) => ({
      status: Number(headers[':status']),
      id: headers['x-request-id'] as string | undefined,
      body: received,
    }),
  )
  answer.catch(() => undefined) // whoever gets it handles it
  for await (const piece of piecesOf(exchange, stream)) stream.write(piece)
  stream.end()
  return { answer }
}

/** The parts of a body, each when the stream takes more. */
async function* piecesOf({ body, isChunked, isSentSlowly }: Exchange, to: Writable): AsyncGenerator<Buffer> {
  const size = isSentSlowly || isChunked ? PIECE_BYTES : body.length
  for (let at = 0; at < body.length; at += size) {
    if (isSentSlowly) await sleep(PAUSE_MS)
    while (to.writableNeedDrain && !to.destroyed) await sleep(PAUSE_MS)
    yield body.subarray(at, at + size)
  }
}

/** Reads to the end, with pauses if it is slow. */
function receive(stream: Readable, isSlow: boolean): Promise<Buffer> {
  const pieces: Buffer[] = []
  stream.on('data', (bytes) => pieces.push(bytes))
  if (isSlow) readSlowly(stream)
  return new Promise((resolve, reject) => {
    stream.once('end', () => resolve(Buffer.concat(pieces)))
    stream.once('error', reject)
    stream.once('close', () => reject(new Error('the stream was closed')))
  })
}

function readSlowly(stream: Readable): void {
  let read = 0
  stream.on('data', (bytes: Buffer) => {
    read += bytes.length
    if (read < PIECE_BYTES) return
    read = 0
    stream.pause()
    setTimeout(() => stream.resume(), PAUSE_MS)
  })
}
