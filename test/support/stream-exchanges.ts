import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { RouteOptions } from '../../src/options/options.ts'

/*
 * What clients of stream-storm.ts send and get.
 */

const STREAMS_RUST = fileURLToPath(new URL('../../plugins/streams-rust/streams.wasm', import.meta.url))

/** Threads of each route. On Node 20 and 22 that is the number of its streams; further ones wait. */
export const STORM_WORKERS = 4

/** @param plugin - Path of storm.wat, assembled. @param version - The next one changes one of the routes. */
export function stormRoutes(plugin: string, version = 0): RouteOptions[] {
  const usual = {
    bodyLimit: 0,
    outputLimit: 0,
    workers: STORM_WORKERS,
    maxWaitMs: 20_000,
    streamIdleMs: 4_000, // far more than a client that is slow to send needs
  }
  const routes: RouteOptions[] = [
    { ...usual, url: '/hash', plugin: STREAMS_RUST, function: 'hash' },
    { ...usual, url: '/filter', plugin: STREAMS_RUST, function: 'filter' },
    { ...usual, url: '/storm', plugin },
  ]
  return routes.map((route, i) => {
    const changes = Math.floor((version + i) / routes.length)
    return { ...route, config: { keep: 'pear', changes: String(changes) } }
  })
}

/** What a client sends, and what it must get. Both have its id in each line, so that crossed bytes are noticed. */
export interface Exchange {
  readonly path: string
  readonly body: Buffer
  readonly answer: Buffer
  readonly trailers?: Readonly<Record<string, string>>
  /** Ends of a client that does nothing unusual. */
  readonly ends: readonly End[]
}

/**
 * How a stream ended: as it should; by its client; broken off; with 503; with 408, because its client stopped to send; with
 * 500 before its answer began, because another guest ended its thread.
 */
export type End = 'whole' | 'left' | 'broken' | 'refused' | 'late' | 'lost'

/** Kinds of exchanges, and their frequency. */
export const EXCHANGES: Readonly<
  Record<string, { readonly share: number; open(id: number, lines: number): Exchange }>
> = {
  hash: {
    share: 25,
    open(id, lines) {
      const body = Buffer.from(linesOf(id, lines).join(''))
      const digest = createHash('sha256').update(body).digest('hex')
      return { path: '/hash', body, answer: Buffer.from(`${digest} ${body.length}\n`), ends: ['whole'] }
    },
  },
  filter: {
    share: 25,
    open(id, lines) {
      const all = linesOf(id, lines)
      const kept = all.filter((line, i) => i === 0 || line.includes('pear'))
      return {
        ...{ path: '/filter', body: Buffer.from(all.join('')), answer: Buffer.from(kept.join('')) },
        ...{ trailers: { 'x-lines': String(kept.length) }, ends: ['whole'] },
      }
    },
  },
  echo: {
    share: 20,
    open(id, lines) {
      const body = Buffer.from(linesOf(id, lines).join(''))
      return { path: '/storm', body, answer: body, ends: ['whole'] }
    },
  },
  events: {
    share: 20,
    open(id) {
      const data = `E${id}.`.repeat(1 + (id % 50))
      const answer = Buffer.from(`data: ${data}\n\n`.repeat(10))
      return { path: '/storm', body: Buffer.from(data), answer, ends: ['whole'] }
    },
  },
  loop: { share: 5, open: (id) => failing('L', id) },
  trap: { share: 5, open: (id) => failing('T', id) },
}

/** The guest sends the body back, and ends its thread or itself. */
function failing(mood: string, id: number): Exchange {
  const body = Buffer.from(`${mood}${id};`.repeat(100))
  return { path: '/storm', body, answer: body, ends: ['broken'] }
}

function linesOf(id: number, lines: number): string[] {
  return Array.from(
    { length: lines },
    (_, i) => `${id},${i},${i % 3 === 0 ? 'pear' : 'apple'},${id * 7 + i}\n`,
  )
}
