import http from 'node:http'
import https from 'node:https'
import { finished } from 'node:stream'
import { OutboundTooLargeError } from '../../errors/errors.ts'
import { ChunkList } from '../../platform/chunks.ts'
import type { SendableRequest } from './guest-request.ts'
import { ResponseTurns } from './response-turns.ts'
import type { Target } from './target.ts'

/** The response of a server. */
export interface OutboundResponse {
  readonly status: number
  /** The headers by their names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** The body as received, not decompressed. */
  readonly body: Uint8Array
}

/** A route's connections to other servers. */
export interface OutboundClient {
  /**
   * Sends one request and reads its response. Redirects are not followed, and cookies are not stored.
   *
   * @param ended - Ends it early, with the signal's reason.
   * @throws `OutboundTooLargeError` at the client's `maxBytes`, without reading further.
   * @throws the error of Node.js, if there is no response.
   */
  exchange(request: SendableRequest, target: Target, ended: AbortSignal): Promise<OutboundResponse>
  /**
   * Begins a request without its `body`. The caller writes one, ends the request, and destroys it if it is not needed any
   * more. See {@link responseTo}.
   *
   * @param framing - The length of the body in bytes, `chunked` if it is unknown, or undefined if there is no body.
   */
  begin(request: SendableRequest, target: Target, framing: number | 'chunked' | undefined): http.ClientRequest
  /** Closes all connections, also those in use. */
  close(): void
}

/** Connections of a route to one server. */
const MAX_CONNECTIONS = 64

/** Total connections of a route, so that guests cannot exhaust the sockets of the process. */
const MAX_TOTAL_CONNECTIONS = 1_024

/** Idle connections of a route to one server. */
const MAX_IDLE = 8

/** Most servers close an idle connection after 5 s or later. Closing first avoids sending into a closed connection. */
const IDLE_CONNECTION_MS = 4_000

const MAX_HEADER_BYTES = 16_384

/**
 * Interim responses (1xx) to one request. A server may send `102 Processing` every second while it works; one that sends them as fast
 * as it can costs a core.
 */
const MAX_INTERIM = 1_000

/**
 * Opens a client on Node's own `http`: connections that ignore proxy variables of the environment, with Node's strict
 * parser.
 *
 * @param maxBytes - Maximum size of a response body.
 * @param ca - Certificates to trust instead of Node's.
 */
export function openClient(maxBytes: number, ca?: string): OutboundClient {
  return new NodeClient(maxBytes, ca)
}

class NodeClient implements OutboundClient {
  readonly #maxBytes: number
  readonly #http: http.Agent
  readonly #https: https.Agent

  constructor(maxBytes: number, ca: string | undefined) {
    const pool = {
      keepAlive: true,
      timeout: IDLE_CONNECTION_MS,
      maxSockets: MAX_CONNECTIONS,
      maxTotalSockets: MAX_TOTAL_CONNECTIONS,
      maxFreeSockets: MAX_IDLE,
      autoSelectFamily: true, // makes `lookup` give all addresses
    }
    this.#maxBytes = maxBytes
    this.#http = new http.Agent(pool)
    this.#https = new https.Agent({ ...pool, ...(ca === undefined ? {} : { ca }) })
  }

  async exchange(request: SendableRequest, target: Target, ended: AbortSignal): Promise<OutboundResponse> {
    for (;;) {
      const outgoing = this.begin(request, target, request.body?.length).end(request.body)
      try {
        return await readResponse(outgoing, target.name, this.#maxBytes, ended)
      } catch (error) {
        if (!wasStale(outgoing, error, ended)) throw error
      }
    }
  }

  begin(
    { method, headers }: SendableRequest,
    target: Target,
    framing: number | 'chunked' | undefined,
  ): http.ClientRequest {
    const { url, host, lookup } = target
    const isSecure = url.protocol === 'https:'
    const outgoing = (isSecure ? https : http).request({
      method,
      host,
      port: url.port,
      path: url.pathname + url.search,
      lookup,
      agent: isSecure ? this.#https : this.#http,
      maxHeaderSize: MAX_HEADER_BYTES,
      insecureHTTPParser: false,
    })
    outgoing.on('socket', (socket) => {
      if (!socket.connecting) return // a kept connection, which was checked before
      // Before the socket's own listeners, which send the pending data.
      socket.prependOnceListener('connect', () => {
        const problem = target.problemWithPeer(socket.localAddress, socket.remoteAddress)
        if (problem) outgoing.destroy(problem)
      })
    })
    let interim = 0
    outgoing.on('information', () => {
      if (++interim > MAX_INTERIM) outgoing.destroy(endlessInterim())
    })
    for (const [name, value] of Object.entries(DEFAULT_HEADERS)) outgoing.setHeader(name, value)
    for (const [name, value] of headers) outgoing.setHeader(name, value)
    if (framing === 'chunked') outgoing.setHeader('transfer-encoding', 'chunked')
    else if (framing !== undefined) outgoing.setHeader('content-length', framing)
    return outgoing
  }

  close(): void {
    this.#http.destroy()
    this.#https.destroy()
  }
}

/** The code of the error of a server that sends interim responses only. */
export const ENDLESS_INTERIM = 'ENDLESS_INTERIM'

function endlessInterim(): Error {
  const message = `it sent more than ${MAX_INTERIM} interim responses (1xx) and no other`
  return Object.assign(new Error(message), { code: ENDLESS_INTERIM })
}

/** Sent unless the guest sets its own. `identity`, because the body is passed on as received and guests may not decompress. */
const DEFAULT_HEADERS = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'wasm-serve' }

async function readResponse(
  outgoing: http.ClientRequest,
  name: string,
  maxBytes: number,
  ended: AbortSignal,
): Promise<OutboundResponse> {
  const stop = () => outgoing.destroy()
  ended.addEventListener('abort', stop)
  try {
    const response = await responseTo(outgoing, ended)
    const { statusCode = 0, rawHeaders } = response
    if (declaresMore(response, outgoing, maxBytes)) throw new OutboundTooLargeError(name, maxBytes)
    const body = await readResponseBody(response, name, maxBytes)
    return { status: statusCode, headers: joinHeaders(rawHeaders), body }
  } catch (error) {
    outgoing.destroy()
    throw error
  } finally {
    ended.removeEventListener('abort', stop)
    if (!outgoing.writableFinished) outgoing.destroy() // the server may never read the rest
  }
}

/** Whether the announced body of a response is larger than this. Responses without a body may announce one. */
export function declaresMore(
  { statusCode, headers }: http.IncomingMessage,
  { method }: http.ClientRequest,
  maxBytes: number,
): boolean {
  const isBodiless = method === 'HEAD' || statusCode === 304
  return !isBodiless && Number(headers['content-length']) > maxBytes
}

/**
 * Waits for the head of a response. The error listener stays: errors after the response are also errors of the response.
 *
 * @param ended - Ends the wait, but not the request.
 */
export function responseTo(outgoing: http.ClientRequest, ended: AbortSignal): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.on('response', resolve)
    outgoing.on('error', reject)
    // The only event for an unexpected upgrade.
    outgoing.on('close', () => reject(Object.assign(new Error('closed'), { code: 'ECONNRESET' })))
    // A request that waits for a connection emits no event when it is destroyed.
    ended.addEventListener('abort', () => reject(ended.reason), { once: true })
    ended.throwIfAborted()
  })
}

function readResponseBody(
  response: http.IncomingMessage,
  name: string,
  maxBytes: number,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks = new ChunkList()
    let length = 0
    const turns = new ResponseTurns(response, () => response.resume())
    response.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length > maxBytes) {
        response.removeAllListeners('data').destroy()
        reject(new OutboundTooLargeError(name, maxBytes))
        return
      }
      chunks.add(chunk)
      turns.count()
    })
    finished(response, { writable: false }, (error) => (error ? reject(error) : resolve(chunks.join())))
  })
}

/**
 * Whether a server closed a kept connection just as it was used. An idempotent request is then sent again on another
 * connection (RFC 9110, 9.2.2).
 */
export function wasStale(outgoing: http.ClientRequest, error: unknown, ended: AbortSignal): boolean {
  const { code } = error as NodeJS.ErrnoException
  const isLost = code === 'ECONNRESET' || code === 'EPIPE'
  return isLost && outgoing.reusedSocket && IDEMPOTENT.has(outgoing.method) && !ended.aborted
}

const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])

/**
 * The headers of a response by name in lower case; several values of one name are joined by a comma.
 *
 * @param raw - Alternating names and values, as Node.js provides them.
 */
export function joinHeaders(raw: readonly string[]): Record<string, string> {
  const headers = new Map<string, string>()
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? '').toLowerCase()
    const value = raw[at + 1] ?? ''
    const before = headers.get(name)
    headers.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  return Object.fromEntries(headers) // makes `__proto__` a key like any other
}

/** Encodes headers as Extism's `http_headers` returns them to a guest: a JSON object of strings. */
export function encodeHeaders(headers: Readonly<Record<string, string>>): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(headers))
}
