import { readFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { type ClientHttp2Session, connect } from 'node:http2'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** Where a server listens. */
export interface Target {
  readonly host: string
  readonly port?: number
  readonly socketPath?: string
  readonly isTls: boolean
}

export interface Reply {
  readonly status: number
  readonly body: string
  readonly type: string
}

/** Sends requests over one connection, one after another; opens the next one when it has ended. */
export interface Sender {
  send(path: string, body: Body, headers?: Record<string, string>): Promise<Reply>
  close(): void
}

/** A body, or its pieces as they come. */
type Body = string | AsyncIterable<string>

/** The connection ended before the answer did. */
export class LostError extends Error {
  readonly port: number | undefined
  readonly at = Date.now()
  /** What had come of the body. */
  readonly part: string
  /**
   * Whether a server that drains may close the connection: it had carried a request before and nothing of this answer (RFC 9112, section
   * 9.3.1), or nothing of this request.
   */
  readonly isClosable: boolean

  constructor(reason: string, port: number | undefined, { part = '', isClosable = false } = {}) {
    super(reason)
    this.port = port
    this.part = part
    this.isClosable = isClosable
  }
}

/** The server has announced that it does not handle the request: it may be sent again. */
export class MovedError extends Error {}

/** No answer for so long. */
export class HangError extends Error {}

/** Far beyond every limit of the server, and every fault. */
const HANG_MS = 180_000

export function openHttp1(target: Target): Sender {
  const options = { keepAlive: true, maxSockets: 1, rejectUnauthorized: false }
  const agent = target.isTls ? new TlsAgent(options) : new Agent(options)
  return {
    send: (path, body, headers) => inTime(sendHttp1(target, agent, path, body, headers)),
    close: () => agent.destroy(),
  }
}

async function sendHttp1(
  { host, port, socketPath, isTls }: Target,
  agent: Agent,
  path: string,
  body: Body,
  headers: Record<string, string> = {},
): Promise<Reply> {
  let own: number | undefined
  const place = socketPath === undefined ? { host, port } : { socketPath }
  const outgoing = (isTls ? tlsRequest : request)({ ...place, agent, path, headers, method: 'POST' })
  outgoing.on('socket', (socket: Socket) => {
    own = socket.localPort
    if (!socket.connecting) return
    socket.once('connect', () => {
      own = socket.localPort
    })
  })
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve)
    const lost = (reason: string) => new LostError(reason, own, { isClosable: outgoing.reusedSocket })
    outgoing.on('error', (error) => reject(lost(String(error))))
    outgoing.once('close', () => reject(lost('closed')))
  })
  answer.catch(() => undefined)
  if (typeof body === 'string') outgoing.end(body)
  else void write(body, outgoing)
  const incoming = await answer
  let text = ''
  incoming.setEncoding('utf8')
  try {
    for await (const piece of incoming) text += piece
  } catch (error) {
    throw new LostError(String(error), own, { part: text })
  }
  return { status: incoming.statusCode ?? 0, body: text, type: incoming.headers['content-type'] ?? '' }
}

async function write(body: AsyncIterable<string>, to: ReturnType<typeof request>): Promise<void> {
  for await (const piece of body) {
    if (to.destroyed) return
    to.write(piece)
  }
  to.end()
}

/** Over HTTP/2, several at a time. */
export function openHttp2({ host, port }: Target): Sender {
  let session: ClientHttp2Session | undefined
  const send = async (path: string, body: Body, headers: Record<string, string> = {}): Promise<Reply> => {
    if (!session || session.closed || session.destroyed) {
      session = connect(`https://${host}:${port}`, { rejectUnauthorized: false })
      session.on('error', () => undefined)
      watchConnection(session)
    }
    const used = session
    let own = used.socket?.localPort
    if (used.connecting)
      used.once('connect', () => {
        own = used.socket?.localPort
      })
    const stream = used.request({ ':method': 'POST', ':path': path, ...headers })
    const head = new Promise<Record<string, unknown>>((resolve, reject) => {
      stream.once('response', resolve)
      stream.on('error', (error) => reject(endOf(error, stream.rstCode, own)))
      stream.once('close', () => reject(endOf(new Error('closed'), stream.rstCode, own)))
    })
    head.catch(() => undefined)
    stream.end(typeof body === 'string' ? body : undefined)
    const received = await head
    try {
      const bytes = await buffer(stream)
      if (stream.rstCode || stream.aborted) throw new Error(`reset: ${stream.rstCode}`)
      const length = Number(received['content-length'] ?? bytes.length)
      if (bytes.length !== length) throw new Error(`${bytes.length} of ${length} bytes, ${used.destroyed}`)
      return {
        status: Number(received[':status']),
        body: String(bytes),
        type: String(received['content-type'] ?? ''),
      }
    } catch (error) {
      throw new LostError(String(error), own)
    }
  }
  return {
    send: (path, body, headers) => inTime(send(path, body, headers)),
    close: () => session?.destroy(),
  }
}

/**
 * Node.js 20's client may miss that its connection was reset, while it waits to send: it then neither reads nor writes, and
 * its requests have no end.
 */
function watchConnection(session: ClientHttp2Session): void {
  const look = () => {
    const port = session.destroyed || session.connecting ? undefined : session.socket?.localPort
    if (port === undefined) return
    const local = `: 0100007F:${port.toString(16).toUpperCase().padStart(4, '0')} `
    if (!readFileSync('/proc/net/tcp', 'utf8').includes(local))
      session.destroy(new Error('the connection is gone'))
  }
  const timer = setInterval(look, 1_000)
  session.once('close', () => clearInterval(timer))
}

const REFUSED_STREAM = 7

function endOf(error: Error & { readonly code?: string }, rstCode: number | undefined, port?: number): Error {
  const isMoved = rstCode === REFUSED_STREAM || error.code === 'ERR_HTTP2_GOAWAY_SESSION'
  return isMoved ? new MovedError(String(error)) : new LostError(`${error} ${rstCode ?? ''}`, port)
}

async function inTime<Value>(promise: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new HangError('no answer')), HANG_MS)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
