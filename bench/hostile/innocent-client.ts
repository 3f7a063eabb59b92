import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { percentile } from '../statistics.ts'

/*
 * A client of routes that are unrelated to a hostile guest, in its own process. It sends requests at a constant rate,
 * independent of the answers, so that requests also arrive while the server is blocked. The time of an answer counts
 * from when its request was due.
 */

/** Messages to the client. */
export type ToClient =
  | { readonly start: readonly string[]; readonly perSecond: number }
  | { readonly begin: true }
  /** @param limitMs - How long to wait for missing answers. */
  | { readonly end: true; readonly limitMs: number }

/** Results of the requests that were due between `begin` and `end`. */
export interface Innocents {
  readonly answers: number
  /** Without an answer of 200 with their own body. */
  readonly failed: number
  /** Answered with the body of another. */
  readonly wrong: number
  readonly p99Ms: number
  readonly maxMs: number
}

interface RequestRecord {
  readonly due: number
  ms: number | undefined
  outcome: 'waits' | 'right' | 'wrong' | 'failed'
}

/** On each route. */
const CONNECTIONS = 32

let sent: RequestRecord[] = []
let beganAt = 0
let serial = 0

process.on('message', (message: ToClient) => {
  if ('start' in message) start(message.start, message.perSecond)
  else if ('begin' in message) {
    beganAt = performance.now()
    sent = sent.filter(({ due }) => due >= beganAt)
  } else void end(message.limitMs)
})

function start(urls: readonly string[], perSecond: number): void {
  const routes = urls.map((url) => ({ url, agent: new Agent({ keepAlive: true, maxSockets: CONNECTIONS }) }))
  const intervalMs = 1_000 / perSecond
  let due = performance.now()
  setInterval(() => {
    for (; due <= performance.now(); due += intervalMs) {
      const route = routes[serial % routes.length]
      if (route) void send(route.url, route.agent, due)
    }
  }, intervalMs)
}

async function send(url: string, agent: Agent, due: number): Promise<void> {
  const id = `innocent ${serial++}`
  const one: RequestRecord = { due, ms: undefined, outcome: 'waits' }
  sent.push(one)
  const answered = await post(url, agent, id).catch(() => undefined)
  one.ms = performance.now() - due
  one.outcome = answered?.status !== 200 ? 'failed' : answered.body === id ? 'right' : 'wrong'
}

function post(url: string, agent: Agent, body: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: 'POST', agent }, (response: IncomingMessage) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject)
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

async function end(limitMs: number): Promise<void> {
  const endedAt = performance.now()
  const counted = sent.filter(({ due }) => due >= beganAt && due < endedAt)
  while (counted.some(({ outcome }) => outcome === 'waits') && performance.now() - endedAt < limitMs) {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  const times = counted.map(({ ms, due }) => ms ?? performance.now() - due)
  const innocents: Innocents = {
    answers: counted.length,
    failed: counted.filter(({ outcome }) => outcome === 'failed' || outcome === 'waits').length,
    wrong: counted.filter(({ outcome }) => outcome === 'wrong').length,
    p99Ms: percentile(times, 99),
    maxMs: percentile(times, 100),
  }
  process.send?.(innocents)
}
