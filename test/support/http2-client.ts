import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type IncomingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { frame, preface, requestHead, reset } from './http2-frames.ts'

/** One answer over HTTP/2. */
export interface Http2Answer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Connects to a server of the loopback interface; destroyed when the test ends. */
export async function openHttp2(
  port: number,
  ca: string,
  options: SecureClientSessionOptions = {},
): Promise<ClientHttp2Session> {
  const here = { ca, host: '127.0.0.1', servername: 'localhost' }
  const session = connect(`https://localhost:${port}`, { ...here, ...options })
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
  // Both directions: unread data are discarded.
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

/** A ping, whose answer says that all before it has arrived. */
const PING = frame(6, 0, 0, Buffer.alloc(8))

/** The head of a `PING`'s answer, with all that is fixed of it. */
export const PONG = Buffer.of(0, 0, 8, 6, 1)

/** The error code by which the server ended the connection, if these bytes of it say so. (RFC 9113, section 6.8) */
export function goawayCode(bytes: Buffer): number | undefined {
  const at = bytes.indexOf(Buffer.of(0, 0, 8, 7, 0, 0, 0, 0, 0))
  return at >= 0 && bytes.length >= at + 17 ? bytes.readUInt32BE(at + 13) : undefined
}

/** A client that announces a connection, begins `POST /`, sends half a body and cancels. (RFC 9113) */
export const BROKEN_OFF = Buffer.concat([
  preface(),
  requestHead(1),
  frame(0, 0, 1, Buffer.from('half of')),
  reset(1),
  PING,
])

/** A client that begins `POST /` many times and cancels each immediately: "rapid reset". (CVE-2023-44487) */
export function rapidResets(count: number): Buffer {
  const streams = Array.from({ length: count }, (_, i) => 2 * i + 1)
  return Buffer.concat([preface(), ...streams.flatMap((id) => [requestHead(id), reset(id)]), PING])
}

/** A client that cancels one request so many times. */
export function repeatedResets(count: number): Buffer {
  return Buffer.concat([preface(), requestHead(1), ...Array.from({ length: count }, () => reset(1))])
}
