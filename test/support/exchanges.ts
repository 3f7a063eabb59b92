import { randomUUID } from 'node:crypto'
import type { Random } from './random.ts'

/*
 * Exchanges whose answers are told apart: each has an id, which its answer must have, and a body, which its answer must
 * be.
 */

/** One request to a guest that echoes. */
export interface Exchange {
  readonly path: string
  /** Sent, and expected back, as `x-request-id`. */
  readonly id: string
  readonly body: Buffer
  /** Whether the body is sent in chunks, without its length. */
  readonly isChunked: boolean
  /** Whether the client pauses while it sends. */
  readonly isSentSlowly: boolean
}

/** An answer that arrived in full. */
export interface ExchangeAnswer {
  readonly status: number
  readonly id: string | undefined
  readonly body: Buffer
}

/** A connection that carries many exchanges at a time. */
export interface ExchangeConnection {
  /** Resolves when the request is sent, so that others may follow it. @returns its answer, or rejects when the connection ends. */
  send(exchange: Exchange): Promise<{ readonly answer: Promise<ExchangeAnswer> }>
  close(): void
}

/** How the clients of a load behave. */
export interface ExchangeLoad {
  /** @param isSlow - Whether it reads its answers slowly. */
  readonly open: (isSlow: boolean) => Promise<ExchangeConnection>
  readonly path: string
  readonly connections: number
  /** Exchanges of a connection that have no answer yet, at most. */
  readonly atOnce: number
  /** In all. */
  readonly exchanges: number
  readonly random: Random
}

/** A load with so many faults ends. */
const MAX_FAULTS = 10

/** Runs a load. Every fourth connection reads slowly, and every fifth request is sent slowly. @returns what was wrong. */
export async function faultsOf(load: ExchangeLoad): Promise<string[]> {
  const faults: string[] = []
  let left = load.exchanges
  const runClient = async (client: number) => {
    const connection = await load.open(client % 4 === 3)
    const waiting = new Set<Promise<void>>()
    while (left-- > 0 && faults.length < MAX_FAULTS) {
      const exchange = drawExchange(load)
      const { answer } = await connection.send(exchange)
      const checked = answer
        .then((arrived) => faultIn(exchange, arrived))
        .catch((error: Error) => `${describe(exchange)}: ${error.message}`)
        .then((fault) => {
          if (fault !== undefined) faults.push(fault)
          waiting.delete(checked)
        })
      waiting.add(checked)
      if (waiting.size >= load.atOnce) await Promise.race(waiting)
    }
    await Promise.all(waiting)
    connection.close()
  }
  await Promise.all(Array.from({ length: load.connections }, (_, client) => runClient(client)))
  return faults
}

function drawExchange({ path, random }: ExchangeLoad): Exchange {
  const id = randomUUID()
  const body = Buffer.alloc(drawSize(random), `<${id}>`)
  return { path, id, body, isChunked: random() < 0.5, isSentSlowly: random() < 0.2 }
}

/** Most bodies are small; sizes at which something changes are frequent. */
function drawSize(random: Random): number {
  const kind = random()
  if (kind < 0.15) return pick(EDGES, random)
  if (kind < 0.16) return pick(LARGE_EDGES, random)
  const limit = kind < 0.75 ? 2 ** 11 : kind < 0.92 ? 2 ** 15 : kind < 0.99 ? 2 ** 18 : 2 ** 21
  return Math.floor(random() * limit)
}

/** Of Node's strings and pools, TLS records, and reads. */
const EDGES = [0, 1, 4_095, 4_096, 4_097, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537]

/** Of the pool of outputs, and of the limit. */
const LARGE_EDGES = [2 ** 18, 2 ** 20 - 1, 2 ** 20, 2 ** 20 + 1, 2 ** 21]

function pick(sizes: readonly number[], random: Random): number {
  return sizes[Math.floor(random() * sizes.length)] ?? 0
}

function faultIn(exchange: Exchange, { status, id, body }: ExchangeAnswer): string | undefined {
  if (status === 200 && id === exchange.id && body.equals(exchange.body)) return undefined
  const isOwn = body.equals(exchange.body) ? 'its own' : 'another'
  const text = status === 200 ? '' : body.toString('utf8', 0, 300)
  return `${describe(exchange)}: ${status} ${id} with ${isOwn} body of ${body.length} bytes ${text}`
}

function describe({ path, id, body, isChunked, isSentSlowly }: Exchange): string {
  return `${path} ${id}, ${body.length} bytes${isChunked ? ', chunked' : ''}${isSentSlowly ? ', sent slowly' : ''}`
}
