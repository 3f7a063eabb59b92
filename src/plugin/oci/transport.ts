import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import { isIP, type Socket } from 'node:net'
import { pipeline, Readable, type Transform } from 'node:stream'
import * as tls from 'node:tls'
import * as zlib from 'node:zlib'
import { CredentialsInvalidError } from '../../errors/errors.ts'
import { errorCode, fileProblem } from '../../platform/system-errors.ts'
import { addressOf, openTunnel, proxyAuthorization, proxyOf } from './proxy.ts'

export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Iterable<Uint8Array> | undefined
  readonly signal: AbortSignal
}

export interface HttpResponse {
  readonly status: number
  /** The value of a header by its name in lower case; several values are joined by a comma. */
  header(name: string): string | undefined
  /** The body without its content coding. It can be read once. */
  readonly body: AsyncIterable<Uint8Array>
  /** Ends the exchange. The connection is closed if something of it is still on the way. */
  discard(): void
}

/** Sends one request. It follows no redirects. @throws TypeError with a cause if the network fails, as `fetch` does. */
export type Transport = (url: URL, request: HttpRequest) => Promise<HttpResponse>

/**
 * Opens the transport to a registry and to the servers that it names: Node's own HTTP client, through a proxy if the environment names
 * one. Nothing needs to be closed: connections that are not used do not keep the process alive, and end soon.
 *
 * @param environment - `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or in lower case.
 * @param ca - Path of a PEM file.
 * @throws {@link CredentialsInvalidError} if the CA cannot be used.
 */
export async function openTransport(
  environment: Readonly<Record<string, string | undefined>>,
  ca: string | undefined,
): Promise<Transport> {
  const secureContext = ca === undefined ? undefined : await readAuthorities(ca)
  const plain = new http.Agent(POOL)
  const secure = new https.Agent({ ...POOL, ...TLS, ...(secureContext && { secureContext }) })
  return async (url, request) => {
    const { protocol, host } = url
    const proxy = proxyOf(url, environment)
    if (!proxy) return send(request, url, { agent: protocol === 'https:' ? secure : plain })
    if (protocol === 'https:') {
      const socket = await openTunnel(proxy, url, request.signal)
      return send(request, url, { createConnection: () => secured(socket, url, secureContext) })
    }
    // The whole URL: many proxies refuse a tunnel to another port than 443.
    const headers = { host, ...proxyAuthorization(proxy), ...request.headers }
    return send({ ...request, headers }, proxy, { path: url.href, auth: null })
  }
}

/** Servers close idle connections after 5 s or later. Closing first avoids sending into a closed connection. */
const POOL = { keepAlive: true, timeout: 4_000 } as const

/** A server that speaks HTTP/2 only says so at once. */
const TLS = { ALPNProtocols: ['http/1.1'] }

function secured(socket: Socket, url: URL, secureContext: tls.SecureContext | undefined): tls.TLSSocket {
  const { host } = addressOf(url)
  const servername = isIP(host) === 0 ? host : ''
  return tls.connect({ ...TLS, socket, host, servername, secureContext })
}

function send(
  { method, headers, body, signal }: HttpRequest,
  url: URL,
  options: http.RequestOptions,
): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(networkError(error))
    const { request } = url.protocol === 'https:' ? https : http
    const outgoing = request(url, { ...options, method, headers, signal })
    outgoing.on('error', fail)
    // The only event for an upgrade that nobody asked for.
    outgoing.on('close', () => fail(Object.assign(new Error('closed'), { code: 'ECONNRESET' })))
    outgoing.on('response', (incoming) => {
      try {
        resolve(responseOf(outgoing, incoming))
      } catch (error) {
        outgoing.destroy()
        reject(error)
      }
    })
    if (body === undefined || typeof body === 'string') outgoing.end(body)
    else Readable.from(body).pipe(outgoing)
  })
}

function responseOf(outgoing: http.ClientRequest, incoming: http.IncomingMessage): HttpResponse {
  const { statusCode: status = 0, headers } = incoming
  const header = (name: string) => headers[name]?.toString()
  const hasBody = outgoing.method !== 'HEAD' && status !== 204 && status !== 304
  const body = hasBody ? decoded(incoming, header('content-encoding') ?? '') : incoming
  const discard = () => {
    const isOver = incoming.complete && outgoing.writableFinished
    if (isOver && body === incoming)
      incoming.resume() // then the connection can be used again
    else outgoing.destroy()
  }
  return { status, header, body: readBody(body), discard }
}

async function* readBody(body: Readable): AsyncGenerator<Uint8Array> {
  try {
    yield* body
  } catch (error) {
    throw networkError(error)
  }
}

/** Content codings that servers use though none was asked for. Digests are those of the decoded bytes. */
const DECODERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', zlib.createGunzip],
  ['x-gzip', zlib.createGunzip],
  ['deflate', zlib.createInflate],
  ['br', zlib.createBrotliDecompress],
])

function decoded(incoming: http.IncomingMessage, written: string): Readable {
  const coding = written.trim().toLowerCase()
  if (coding === '' || coding === 'identity') return incoming
  const decoder = DECODERS.get(coding)?.()
  if (!decoder) throw networkError(new Error(`it sends an unknown content coding, ${coding}`))
  return pipeline(incoming, decoder, () => undefined) // the reader gets the error
}

function networkError(cause: unknown): TypeError {
  return new TypeError('the request failed', { cause })
}

/** The authorities of a file besides those of Node.js: a token server or object store may have a public certificate. */
async function readAuthorities(path: string): Promise<tls.SecureContext> {
  try {
    const pem = await readFile(path, 'utf8')
    new X509Certificate(pem) // else a text without certificates is ignored
    const { getCACertificates } = tls as NewerTls
    return tls.createSecureContext({ ca: [...(getCACertificates?.() ?? tls.rootCertificates), pem] })
  } catch (error) {
    const isFile = errorCode(error)?.startsWith('ERR_') === false
    const reason = isFile ? fileProblem(error) : 'it is not a PEM file with a certificate'
    throw new CredentialsInvalidError(path, reason, { cause: error })
  }
}

/** What newer versions add to `node:tls`. */
interface NewerTls {
  /** Includes those of `NODE_EXTRA_CA_CERTS` and of the system, if they are in use. */
  readonly getCACertificates?: () => readonly string[]
}
