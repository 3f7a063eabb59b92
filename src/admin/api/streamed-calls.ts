import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import {
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestOptions,
  request as requestHttp,
} from 'node:http'
import { request as requestHttps } from 'node:https'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { AdminRequestError, AdminUnknownError } from '../../errors/errors.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import { letStream } from '../../route/streams/serve-streams.ts'
import type { AdminFeature } from '../feature.ts'
import { type EndpointDescription, toRequestError } from './endpoint.ts'
import { bodies, ref } from './schemas.ts'

/** The endpoints of {@link addStreamedCalls}. */
export const STREAMED_CALLS: readonly EndpointDescription[] = [
  {
    method: 'POST',
    path: '/api/streams',
    id: 'streamCall',
    summary: 'Send a test request to a route, and get the response as it arrives',
    description:
      'The request uses a separate connection to the listener of the routes, which closes with this one. Not for servers that require client certificates.',
    body: bodies.streamedCall,
    answers: {
      200: {
        description: 'One line of JSON for each event of the exchange.',
        contentType: 'application/x-ndjson',
        schema: ref('CallLine'),
      },
    },
  },
  {
    method: 'PUT',
    path: '/api/streams/{id}',
    id: 'sendStreamBody',
    summary: 'Send the body of a streamed call',
    description:
      'A separate request, because browsers read no response before they have sent the whole request body.',
    takesStream: true,
    answers: {
      200: {
        description: 'The body was sent, or the response was complete before.',
        schema: ref('SentBody'),
      },
    },
  },
]

/** A request for a route, as described by its schema. */
interface StreamedCall {
  readonly method?: string
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  readonly hasBody?: boolean
}

/** A call whose body has not been sent. */
interface Upload {
  readonly request: ClientRequest
  /** Bytes sent so far. */
  bytes: number
}

/** Calls of routes by operators whose bodies and answers pass through the admin listener piece by piece. */
export const addStreamedCalls: AdminFeature = (app, { served, options }) => {
  const uploads = new Map<string, Upload>()
  app.addContentTypeParser('*', (_request, _body, done) => done(null)) // read by the handler
  app.route({
    method: 'POST',
    url: '/api/streams',
    schema: { body: bodies.streamedCall },
    schemaErrorFormatter: toRequestError,
    handler: async ({ body }, reply) => {
      const call = body as StreamedCall
      const request = openRequest(call, served.server.url, options)
      const answered = once(request, 'response') as Answered
      answered.catch(() => undefined) // it is awaited later
      const id = randomUUID()
      const upload = { request, bytes: 0 }
      if (call.hasBody) uploads.set(id, upload)
      else request.end()
      reply.raw.once('close', () => {
        uploads.delete(id)
        abandon(request)
      })
      return reply.type('application/x-ndjson').send(Readable.from(renderLines(id, upload, answered)))
    },
  })
  app.put<{ Params: { readonly id: string } }>('/api/streams/:id', async ({ params, body, raw }, reply) => {
    const upload = uploads.get(params.id)
    if (!upload || body !== undefined) {
      reply.header('connection', 'close') // the client may continue to send
      throw upload
        ? new AdminRequestError('The content type of the body must be application/octet-stream')
        : new AdminUnknownError('streamed call', params.id, '')
    }
    uploads.delete(params.id)
    letStream(raw)
    raw.on('data', ({ length }: Buffer) => {
      upload.bytes += length
    })
    // The other request has the reason.
    await pipeline(raw, upload.request).catch(() => reply.header('connection', 'close'))
    return { bytes: upload.bytes }
  })
}

/**
 * Opens a request to the own server.
 *
 * @param url - Of the listener of the routes.
 * @throws {@link AdminRequestError}
 */
function openRequest(
  { method = 'POST', url: path, headers = {}, hasBody = false }: StreamedCall,
  url: string | undefined,
  { tls }: CheckedServerOptions,
): ClientRequest {
  if (url === undefined) throw new AdminRequestError('The server does not listen')
  if (tls?.ca !== undefined)
    throw new AdminRequestError(
      'The server requires certificates of its clients, so that it refuses this one',
    )
  const all: OutgoingHttpHeaders = { 'user-agent': 'wasm-serve console', ...lowerCased(headers) }
  if (hasBody && all['content-length'] === undefined) all['transfer-encoding'] = 'chunked'
  const options = { ...addressOf(url), method, path, headers: all, agent: false }
  try {
    // The certificate need not be for the address of the listener, and no other server answers there.
    const request = tls ? requestHttps({ ...options, rejectUnauthorized: false }) : requestHttp(options)
    return request.on('error', () => undefined) // whoever waits for the answer gets it
  } catch (error) {
    throw new AdminRequestError(`The request cannot be sent: ${reasonOf(error)}`)
  }
}

/** Resets the connection, where that is possible: a server that has nothing to send does not notice the end of one side. */
function abandon(request: ClientRequest): void {
  const { socket } = request
  const isTcp = socket?.remoteAddress !== undefined && !('encrypted' in socket)
  if (isTcp) socket.resetAndDestroy()
  request.destroy()
}

function lowerCased(headers: Readonly<Record<string, string>>): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}

function addressOf(url: string): RequestOptions {
  if (url.startsWith(UNIX_SCHEME)) return { socketPath: url.slice(UNIX_SCHEME.length) }
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  return { host: LOOPBACK_OF[host] ?? host, port }
}

const UNIX_SCHEME = 'unix:'

/** Loopback addresses by the wildcard addresses that include them. */
const LOOPBACK_OF: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** @param answered - The answer to the request of the upload. */
async function* renderLines(id: string, upload: Upload, answered: Answered): AsyncGenerator<string> {
  const since = performance.now()
  const render = (line: object) =>
    `${JSON.stringify({ ms: Math.round((performance.now() - since) * 1_000) / 1_000, ...line })}\n`
  yield render({ call: id })
  try {
    for await (const line of withBeats(linesOf(answered)))
      yield render(line ?? (upload.bytes > 0 ? { uploaded: upload.bytes } : {}))
  } catch (error) {
    yield render({ problem: reasonOf(error) })
  }
}

type Answered = Promise<[IncomingMessage]>

async function* linesOf(answered: Answered): AsyncGenerator<object> {
  const [answer] = await answered
  yield { status: answer.statusCode, headers: answer.headers }
  for await (const piece of answer) yield { data: (piece as Buffer).toString('base64') }
  yield { trailers: answer.trailers }
}

/** Interval of lines without news: a client that closes its connection is noticed when something is sent. */
const BEAT_MS = 1_000

/** Yields the values, and undefined once in an interval. */
async function* withBeats<Value>(values: AsyncIterable<Value>): AsyncGenerator<Value | undefined> {
  const iterator = values[Symbol.asyncIterator]()
  const newBeat = () => sleep(BEAT_MS, undefined, { ref: false })
  let beat = newBeat()
  for (let next = iterator.next(); ; ) {
    const come = await Promise.race([next, beat])
    if (come?.done) return
    if (come) next = iterator.next()
    else beat = newBeat()
    yield come?.value
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
