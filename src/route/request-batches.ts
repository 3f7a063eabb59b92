// The imported timer, not the global: tests replace the global with a simulated clock.
import { setImmediate } from 'node:timers'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Engine } from '../engine/engine.ts'
import type { RunCall } from './route.ts'

/**
 * Batches all calls of one turn of the event loop, of all routes, at its end: first all arrived requests are read, then
 * the guests run and their answers are written. Alternating between the two for each request costs a quarter of its CPU:
 * each phase has the processor's caches to itself, and a sleeping client is woken once for several answers.
 *
 * Calls of threads need not wait: their answers are already collected once per turn. Nor do those over HTTP/2, where Node reads the
 * requests of a connection together and writes the answers that are there after that.
 *
 * @param batches - Default: those of the process, because all of its servers share one event loop.
 */
export function batched(run: RunCall, engine: Pick<Engine, 'name'>, batches = processBatches): RunCall {
  if (engine.name !== 'inline') return run
  return (request, reply) => {
    if (request.raw.httpVersionMajor === 2) run(request, reply)
    else batches.add(run, request, reply)
  }
}

/** A turn with fewer calls than this is quiet: waiting for its end costs 1 us per call without benefit. */
export const MIN_BATCH = 3

/** The number of consecutive quiet turns after which calls run immediately instead of at the end of their turn. */
const QUIET_TURNS_BEFORE_BYPASS = 16

/** The number of calls that run immediately before turns are counted again. */
const BYPASSED_CALLS = 500

/** Maximum batch size: the data of more requests would have left the processor's caches when they run. */
export const MAX_BATCH = 64

interface DueCall {
  readonly run: RunCall
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

/** Calls of one event loop, by turn. */
export class RequestBatches {
  #due: DueCall[] = []
  /** Calls in this turn, including those that ran immediately. */
  #turnSize = 0
  /** Quiet turns since the last turn with more calls. */
  #quietTurns = 0
  /** Calls that may still run immediately. */
  #bypassed = 0

  /** Runs a call at the end of this turn, or earlier if there are many or few. */
  add(run: RunCall, request: FastifyRequest, reply: FastifyReply): void {
    if (this.#bypassed > 0) {
      this.#bypassed--
      run(request, reply)
      return
    }
    this.#turnSize++
    if (this.#turnSize === 1) setImmediate(this.#end)
    if (this.#due.push({ run, request, reply }) === MAX_BATCH) runAll(this.#due.splice(0))
  }

  readonly #end = (): void => {
    const due = this.#due
    const size = this.#turnSize
    this.#due = []
    this.#turnSize = 0
    this.#quietTurns = size < MIN_BATCH ? this.#quietTurns + 1 : 0
    if (this.#quietTurns >= QUIET_TURNS_BEFORE_BYPASS) {
      this.#quietTurns = 0
      this.#bypassed = BYPASSED_CALLS
    }
    runAll(due)
  }
}

/** A call that throws is a bug; the calls after it still run. */
function runAll(calls: readonly DueCall[]): void {
  let next = 0
  try {
    for (const { run, request, reply } of calls) {
      next++
      run(request, reply)
    }
  } finally {
    if (next < calls.length) setImmediate(runAll, calls.slice(next))
  }
}

const processBatches = new RequestBatches()
