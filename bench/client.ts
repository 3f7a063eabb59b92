import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { request as requestTls, Agent as TlsAgent } from 'node:https'
import { text } from 'node:stream/consumers'
import { REQUEST_HEADERS } from './scenario.ts'

interface Answer {
  readonly status: number
  readonly body: string
  /** When all of it was there, on `performance.now()`. */
  readonly at: number
}

interface PostOptions {
  readonly signal?: AbortSignal
  readonly headers?: Readonly<Record<string, string>>
}

const agent = new Agent({ keepAlive: true })

/** Servers of the bench have the certificate of the tests. */
const tlsAgent = new TlsAgent({ keepAlive: true, rejectUnauthorized: false })

/**
 * Sends one request, on a connection that was used before if one is free.
 *
 * @throws if there is no answer, or the signal comes first.
 */
export async function post(
  url: string,
  body: string,
  { signal, headers = REQUEST_HEADERS }: PostOptions = {},
): Promise<Answer> {
  const options = { method: 'POST', headers, ...(signal && { signal }) }
  const sent = url.startsWith('https:')
    ? requestTls(url, { ...options, agent: tlsAgent })
    : request(url, { ...options, agent })
  sent.end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const answered = await text(response)
  return { status: response.statusCode ?? 0, body: answered, at: performance.now() }
}
