import { EventEmitter, once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import {
  type AddressInfo,
  createServer as createRawServer,
  type Server as RawServer,
  type Socket,
} from 'node:net'
import { onTestFinished } from 'vitest'
import type { OutboundResponse } from '../../src/guest/outbound/client.ts'
import { type Outbound, type OutboundOptions, openOutbound } from '../../src/guest/outbound/outbound.ts'
import type { Certificate } from './certificate.ts'

/** A server on the loopback interface that knows its connections; closed when the test ends. */
export interface Origin {
  readonly port: number
  /** `http://origin.test:port`. */
  readonly url: string
  /** Connections so far. */
  readonly accepted: number
  /** Waits until all its connections are closed. */
  allClosed(): Promise<void>
}

/** Serves HTTP. */
export function serveHttp(listener: RequestListener, address?: string, port?: number): Promise<Origin> {
  return listen(createServer({ keepAliveTimeout: 60_000 }, listener), 'http', address, port)
}

/** Serves HTTPS. */
export function serveHttps(certificate: Certificate, listener: RequestListener): Promise<Origin> {
  return listen(createSecureServer(certificate, listener), 'https')
}

/** Serves bytes that a test writes to the socket. */
export function serveRaw(onConnection: (socket: Socket) => void): Promise<Origin> {
  return listen(createRawServer(onConnection), 'http')
}

/** Sends interim responses without end, as fast as they are read. */
export function sendInterim(socket: Socket): void {
  const send = () => {
    if (socket.destroyed) return
    if (socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(100))) setImmediate(send)
    else socket.once('drain', send)
  }
  send()
}

async function listen(
  server: RawServer | Server,
  scheme: string,
  address = '127.0.0.1',
  port = 0,
): Promise<Origin> {
  const sockets = new Set<Socket>()
  const news = new EventEmitter()
  let accepted = 0
  server.on('connection', (socket: Socket) => {
    accepted++
    sockets.add(socket)
    socket.on('error', () => socket.destroy()) // clients break off here
    socket.resume() // else it would not see the end
    socket.on('close', () => {
      sockets.delete(socket)
      news.emit('close')
    })
  })
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  server.listen(port, address)
  await once(server, 'listening')
  const { port: actual } = server.address() as AddressInfo
  return {
    port: actual,
    url: `${scheme}://origin.test:${actual}`,
    get accepted() {
      return accepted
    },
    async allClosed() {
      while (sockets.size > 0) await once(news, 'close')
    },
  }
}

/**
 * Opens an outbound client for `*.test` names, which all resolve to the loopback address; closed when the test ends.
 */
export function open(options: Partial<OutboundOptions> = {}): Outbound {
  const outbound = openOutbound({
    allowedHosts: ['origin.test', 'other.test'],
    responseMax: 1_048_576,
    network: { resolve: async () => ['127.0.0.1'] },
    ...options,
  })
  onTestFinished(() => outbound.close())
  return outbound
}

interface OutboundArguments {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string | Uint8Array
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

/** Sends a request: a GET, within 10 s. */
export function ask(
  outbound: Outbound,
  url: string,
  asked: OutboundArguments = {},
): Promise<OutboundResponse> {
  const { method = 'GET', headers = {}, body, timeoutMs = 10_000, signal } = asked
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  return outbound.fetch({ url, method, headers }, bytes, { timeoutMs, signal })
}

/** The error of a request that must fail. */
export async function failureOf(response: Promise<unknown>): Promise<{ code: string; message: string }> {
  const outcome = await response.then(
    (value) => ({ value }),
    (error: { code: string; message: string }) => ({ error }),
  )
  if ('error' in outcome) return outcome.error
  throw new Error(`it did not fail: ${JSON.stringify(outcome.value)}`)
}

/** The text of a response. */
export function textOf({ body }: OutboundResponse): string {
  return Buffer.from(body).toString()
}
