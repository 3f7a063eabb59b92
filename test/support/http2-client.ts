import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type IncomingHttpHeaders,
} from 'node:http2'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

/** One answer over HTTP/2. */
export interface Http2Answer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Connects to a server of the loopback interface; destroyed when the test ends. */
export async function openHttp2(port: number, ca: string): Promise<ClientHttp2Session> {
  const session = connect(`https://localhost:${port}`, { ca, host: '127.0.0.1', servername: 'localhost' })
  session.on('error', () => undefined) // a reset is a way of closing
  onTestFinished(() => session.destroy())
  await once(session, 'connect')
  return session
}

/** Begins a request whose body is to come. */
export function begin(
  session: ClientHttp2Session,
  headers: Record<string, string | string[]> = {},
): ClientHttp2Stream {
  const stream = session.request({ ':method': 'POST', ':path': '/', ...headers }, { endStream: false })
  return stream.on('error', () => undefined)
}

/** Waits for the whole answer. */
export async function answerTo(stream: ClientHttp2Stream): Promise<Http2Answer> {
  // Both at once: what nobody takes is dropped.
  const [[headers], body] = await Promise.all([once(stream, 'response'), buffer(stream)])
  return { status: headers[':status'], headers, body: String(body) }
}

/** Sends a body, without saying how long it is. */
export async function ask(
  session: ClientHttp2Session,
  body: string | Uint8Array,
  headers: Record<string, string | string[]> = {},
): Promise<Http2Answer> {
  const stream = begin(session, headers)
  stream.end(body)
  return answerTo(stream)
}

/** A client that says what it wants to open a connection, begins `POST /`, sends half a body and cancels. (RFC 9113) */
export const BROKEN_OFF = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  frame(4, 0, 0),
  // HPACK: POST, https, / and localhost.
  frame(1, 0x04, 1, Buffer.concat([Buffer.of(0x83, 0x87, 0x84, 0x41, 9), Buffer.from('localhost')])),
  frame(0, 0, 1, Buffer.from('half of')),
  frame(3, 0, 1, Buffer.of(0, 0, 0, 8)),
  frame(6, 0, 0, Buffer.alloc(8)), // a ping, whose answer says that all has arrived
])

function frame(type: number, flags: number, stream: number, content: Uint8Array = Buffer.alloc(0)): Buffer {
  const { length } = content
  return Buffer.concat([Buffer.of(0, length >> 8, length & 255, type, flags, 0, 0, 0, stream), content])
}
