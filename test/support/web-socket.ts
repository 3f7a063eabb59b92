import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import WebSocket, { type ClientOptions } from 'ws'
import { type Client, open } from './socket.ts'

/** A client of a WebSocket. */
export interface SocketClient {
  readonly socket: WebSocket
  /** The next message: a text, or bytes; undefined once the connection has ended. */
  next(): Promise<string | Buffer | undefined>
  /** How the connection ends. */
  readonly closed: Promise<readonly [code: number, reason: string]>
}

/** Opens a WebSocket; ended with the test. @throws an error with the status of a refusal. */
export async function openSocket(
  port: number,
  path = '/',
  { protocols = [], ...options }: ClientOptions & { readonly protocols?: string[] } = {},
): Promise<SocketClient> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, protocols, options)
  onTestFinished(() => socket.terminate())
  const messages: (string | Buffer)[] = []
  const news = new EventTarget()
  socket.on('message', (data: Buffer, isBinary) => {
    messages.push(isBinary ? data : data.toString())
    news.dispatchEvent(new Event('news'))
  })
  const closed = new Promise<readonly [number, string]>((resolve) => {
    socket.on('close', (code, reason) => {
      resolve([code, reason.toString()])
      news.dispatchEvent(new Event('news'))
    })
  })
  await new Promise<void>((resolve, reject) => {
    socket.on('open', resolve)
    socket.on('error', reject)
    socket.on('unexpected-response', (_request, { statusCode }: IncomingMessage) => {
      reject(new Error(`status ${statusCode}`))
    })
  })
  return {
    socket,
    closed,
    async next() {
      while (messages.length === 0) {
        if (socket.readyState === WebSocket.CLOSED) return undefined
        await once(news, 'news')
      }
      return messages.shift()
    },
  }
}

export const HANDSHAKE =
  'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'

/** A WebSocket as bytes. */
export interface RawSocket {
  readonly client: Client
  readonly socket: Socket
  /** The next frame of the server; undefined once it has closed. */
  frame(): Promise<Frame | undefined>
}

export interface Frame {
  readonly opcode: number
  readonly payload: Buffer
}

/** Opens a WebSocket whose frames are bytes. */
export async function openRawSocket(port: number, path = '/'): Promise<RawSocket> {
  const client = await open(port)
  const { socket } = client
  let received = Buffer.alloc(0)
  let isClosed = false
  const news = new EventTarget()
  const notify = () => news.dispatchEvent(new Event('news'))
  socket.on('data', (bytes: Buffer) => {
    received = Buffer.concat([received, bytes])
    notify()
  })
  for (const event of ['end', 'close'])
    socket.on(event, () => {
      isClosed = true
      notify()
    })
  const cut = (length: number): Buffer => {
    const head = received.subarray(0, length)
    received = received.subarray(length)
    return head
  }
  client.send(HANDSHAKE.replace('/', path))
  while (!received.includes('\r\n\r\n')) await once(news, 'news')
  cut(received.indexOf('\r\n\r\n') + 4)
  return {
    client,
    socket,
    async frame() {
      for (;;) {
        const short = received.length >= 2 ? (received[1] as number) & 127 : -1
        const head = short === 126 ? 4 : short === 127 ? 10 : 2
        if (short >= 0 && received.length >= head) {
          const wide = short === 126 ? received.readUInt16BE(2) : short
          const length = short === 127 ? Number(received.readBigUInt64BE(2)) : wide
          if (received.length >= head + length) {
            const opcode = (cut(head)[0] as number) & 15
            return { opcode, payload: cut(length) }
          }
        }
        if (isClosed) return undefined
        await once(news, 'news')
      }
    },
  }
}

/** A frame of a client, with a mask of zeros. @param first - FIN, reserved bits and opcode. */
export function frame(first: number, payload: string | Uint8Array = '', isMasked = true): Buffer {
  const bytes = Buffer.from(payload)
  const mask = isMasked ? 128 : 0
  const length =
    bytes.length < 126 ? [mask + bytes.length] : [mask + 126, bytes.length >> 8, bytes.length & 255]
  return Buffer.concat([Uint8Array.from([first, ...length]), Buffer.alloc(isMasked ? 4 : 0), bytes])
}

/** FIN and an opcode. */
export const TEXT = 0x81
export const BINARY = 0x82
export const CLOSE = 0x88
export const PING = 0x89
export const PONG = 0x8a

/** The code and the reason of a closing frame. */
export function closingOf({ payload }: Frame): readonly [code: number, reason: string] {
  return [payload.readUInt16BE(0), payload.subarray(2).toString()]
}
