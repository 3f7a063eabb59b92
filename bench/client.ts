import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { REQUEST_HEADERS } from './scenario.ts'

export interface Answer {
  readonly status: number
  readonly body: string
  /** When all of it was there, on `performance.now()`. */
  readonly at: number
}

const agent = new Agent({ keepAlive: true })

/**
 * Sends one request, on a connection that was used before if one is free.
 *
 * @throws if there is no answer, or the signal comes first.
 */
export async function post(url: string, body: string, signal?: AbortSignal): Promise<Answer> {
  const sent = request(url, { method: 'POST', headers: REQUEST_HEADERS, agent, ...(signal && { signal }) })
  sent.end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const answered = await text(response)
  return { status: response.statusCode ?? 0, body: answered, at: performance.now() }
}
