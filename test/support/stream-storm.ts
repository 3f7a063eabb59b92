import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { suspending } from '../../src/platform/missing-types.ts'
import type { ServerProcess } from './fork-server.ts'
import type { Random } from './random.ts'
import { type End, EXCHANGES, type Exchange, STORM_WORKERS } from './stream-exchanges.ts'

/*
 * Streams of all kinds at once, with all that can happen to them. For tests and for long tests: this file imports nothing
 * of Vitest.
 */

/** No stream may take so long: all limits of the server together are far less. */
const HANG_MS = 60_000

/** What clients do, and its frequency. */
const MANNERS = {
  /** Sends and reads as fast as it can. */
  plain: 50,
  'slow to send': 15,
  'slow to read': 15,
  /** Leaves while it sends. */
  'leaves early': 8,
  /** Leaves when a part of the answer has come. */
  'leaves late': 8,
  /** Stops to send, and stays. */
  silent: 4,
} as const

type Manner = keyof typeof MANNERS

/** Manners of clients that send a part of the body. */
const PARTIAL: readonly Manner[] = ['leaves early', 'silent']

/** Ends of a client with a manner, besides those of its kind and a refusal. */
const ENDS_OF: Readonly<Record<Manner, readonly End[]>> = {
  plain: [],
  'slow to send': [],
  'slow to read': [],
  'leaves early': ['left'],
  'leaves late': ['left'],
  silent: ['late', 'broken'],
}

/** How many streams ended in each way, by kind and manner, as in `hash, silent: late`. */
export interface StormReport {
  readonly ends: ReadonlyMap<string, number>
  /** Wrong bytes, ends that are not permitted, streams that hung. */
  readonly problems: readonly string[]
}

/**
 * Sends streams while the routes are changed.
 *
 * @param change - Changes the routes, after each tenth stream.
 * @param atOnce - Maximum number of clients.
 */
export async function storm(
  server: Pick<ServerProcess, 'url'>,
  random: Random,
  count: number,
  atOnce: number,
  change: () => Promise<void>,
): Promise<StormReport> {
  const ends = new Map<string, number>()
  const problems: string[] = []
  let changed = Promise.resolve()
  let begun = 0
  let done = 0
  const client = async () => {
    while (begun < count) {
      const id = ++begun
      const kind = draw(random, shares)
      const exchange = EXCHANGES[kind]?.open(id, 1 + Math.floor(random() ** 3 * 20_000))
      const drawn = draw(random, MANNERS)
      // Its events have all of the body, or what has come of it.
      const manner = kind === 'events' && PARTIAL.includes(drawn) ? 'plain' : drawn
      if (!exchange) throw new Error(`there is no kind ${kind}`)
      const outcome = await inTime(runStream(server.url, exchange, manner, random()))
      const label = `${kind}, ${manner}: ${outcome.end}`
      ends.set(label, (ends.get(label) ?? 0) + 1)
      const permitted = [...exchange.ends, ...ENDS_OF[manner], 'refused', ...(suspending ? LOST : [])]
      if (!permitted.includes(outcome.end)) problems.push(`${id}: ${label} ${outcome.detail}`)
      if (++done % CHANGE_AFTER === 0) changed = changed.then(change)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, client))
  await changed
  return { ends, problems }
}

const CHANGE_AFTER = 10

/** Where a thread has several streams, a guest that ends its thread ends them. */
const LOST: readonly End[] = ['broken', 'lost']

const shares = Object.fromEntries(Object.entries(EXCHANGES).map(([kind, { share }]) => [kind, share]))

function draw<Name extends string>(random: Random, shares: Readonly<Record<Name, number>>): Name {
  const all = Object.entries(shares) as [Name, number][]
  let rest = random() * all.reduce((sum, [, share]) => sum + share, 0)
  for (const [name, share] of all) {
    rest -= share
    if (rest < 0) return name
  }
  throw new Error('there is nothing to draw from')
}

interface Outcome {
  readonly end: End | 'wrong' | 'hung'
  readonly detail: string
}

/** Sends a body, and compares the answer as it comes. @param part - Of the body, for clients that do not send all of it. */
async function runStream(
  url: string,
  { path, body, answer, trailers = {} }: Exchange,
  manner: Manner,
  part: number,
): Promise<Outcome> {
  const sent = request(url + path, { method: 'POST', agent: false })
  sent.on('error', () => undefined) // the answer, or its absence, tells
  const closed = closeOf(sent)
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>
  answered.catch(() => undefined)
  send(sent, body, manner, Math.floor(part * body.length))
  const response = await Promise.race([
    answered.then(([response]) => response).catch(() => undefined),
    closed,
  ])
  if (!response) {
    return { end: manner === 'leaves early' ? 'left' : 'broken', detail: 'without an answer' }
  }
  if (response.statusCode !== 200) return refusal(response, sent)
  let at = 0
  try {
    for await (const piece of response as AsyncIterable<Buffer>) {
      if (!answer.subarray(at, at + piece.length).equals(piece))
        return { end: 'wrong', detail: `at byte ${at}` }
      at += piece.length
      if (manner === 'leaves late') {
        sent.destroy()
        return { end: 'left', detail: '' }
      }
      if (manner === 'slow to read') await sleep(2)
    }
  } catch {
    return { end: manner === 'leaves early' ? 'left' : 'broken', detail: `at byte ${at}` }
  } finally {
    sent.destroy()
  }
  const isWhole = response.complete && at === answer.length
  const isRight =
    isWhole && Object.entries(trailers).every(([name, value]) => response.trailers[name] === value)
  return isRight
    ? { end: 'whole', detail: '' }
    : { end: 'wrong', detail: `ended at byte ${at} of ${answer.length}` }
}

/** Unlike `once`, it does not reject. */
function closeOf(sent: ClientRequest): Promise<undefined> {
  return new Promise((resolve) => sent.once('close', () => resolve(undefined)))
}

function send(sent: ClientRequest, body: Buffer, manner: Manner, part: number): void {
  const isPartial = PARTIAL.includes(manner)
  async function* pieces() {
    for (let at = 0; at < (isPartial ? part : body.length); at += PIECE_BYTES) {
      yield body.subarray(at, Math.min(at + PIECE_BYTES, isPartial ? part : body.length))
      if (manner === 'slow to send') await sleep(2)
    }
    if (manner === 'leaves early') sent.destroy()
    if (manner === 'silent') await closeOf(sent)
  }
  Readable.from(pieces()).pipe(sent)
}

const PIECE_BYTES = 16_384

/** Refusals that are permitted. */
const REFUSALS: Readonly<Record<string, End>> = {
  '503 WASM_SERVE_STREAMS_FULL': 'refused',
  '503 WASM_SERVE_QUEUE_FULL': 'refused',
  '408 WASM_SERVE_REQUEST_TIMEOUT': 'late',
  '500 WASM_SERVE_WORKER_LOST': 'lost',
}

async function refusal(response: IncomingMessage, sent: ClientRequest): Promise<Outcome> {
  try {
    const body = await text(response)
    const end = `${response.statusCode} ${body.startsWith('{') ? JSON.parse(body).code : body}`
    return { end: REFUSALS[end] ?? 'wrong', detail: end }
  } catch {
    return { end: 'broken', detail: 'within a refusal' }
  } finally {
    sent.destroy()
  }
}

async function inTime(outcome: Promise<Outcome>): Promise<Outcome> {
  const timer = new AbortController()
  const late = sleep(HANG_MS, { end: 'hung', detail: '' } as const, { signal: timer.signal })
  late.catch(() => undefined) // it was not needed
  try {
    return await Promise.race([outcome, late])
  } finally {
    timer.abort()
  }
}

/**
 * Has as many streams open at once as the route with storm.wat has threads: none is held by a stream that is over.
 *
 * @throws if one is not answered.
 */
export async function fillThreads({ url }: Pick<ServerProcess, 'url'>): Promise<void> {
  const open = Array.from({ length: STORM_WORKERS }, async (_, i) => {
    const sent = request(`${url}/storm`, { method: 'POST', agent: false })
    sent.write(`x${i}`)
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    const [piece] = (await once(response, 'data')) as [Buffer]
    if (response.statusCode !== 200 || String(piece) !== `x${i}`)
      throw new Error(`${response.statusCode} ${piece}`)
    return { sent, response }
  })
  for (const { sent, response } of await Promise.all(open)) {
    sent.end()
    if ((await text(response)) !== '') throw new Error('more than was sent came back')
  }
}

/** Descriptors and threads of a process. */
export function openParts({ child }: Pick<ServerProcess, 'child'>): {
  readonly files: number
  readonly threads: number
} {
  const count = (folder: string) => readdirSync(`/proc/${child.pid}/${folder}`).length
  return { files: count('fd'), threads: count('task') }
}
