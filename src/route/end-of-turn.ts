// Not the global one: tests put a simulated clock in its place.
import { setImmediate } from 'node:timers'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Engine } from '../engine/engine.ts'
import type { RunCall } from './route.ts'

/**
 * Runs the calls that came in one turn of the event loop together at its end, those of all routes: first what has come
 * is read, then the guests run and their answers are written, one after the other. To go back and forth between the
 * two for each request costs a quarter of its CPU: each has the processor's caches for itself, and a client that
 * sleeps is woken for each answer, not for the first one of many.
 *
 * Calls for threads need not wait: their answers are collected once a turn anyway.
 *
 * @param turns - Default: those of the process, because all of its servers share one event loop.
 */
export function atEndOfTurn(run: RunCall, engine: Pick<Engine, 'name'>, turns = processTurns): RunCall {
  return engine.name === 'inline' ? (request, reply) => turns.add(run, request, reply) : run
}

/** A turn with fewer calls than this is quiet: to wait for its end costs 1 us a call, and gains nothing. */
export const MIN_BATCH = 3

/** After this many quiet turns in a row, calls run at once and no longer wait for the end of their turn. */
export const QUIET_TURNS_BEFORE_BYPASS = 16

/** This many calls run at once before the size of a turn is counted again. */
export const BYPASSED_CALLS = 500

/** As many calls wait at most: the requests of many more are no longer in the processor's caches when they run. */
export const MAX_BATCH = 64

interface DueCall {
  readonly run: RunCall
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

/** The calls of one event loop, turn by turn. */
export class Turns {
  #due: DueCall[] = []
  /** How many calls this turn has had, those included that did not have to wait for its end. */
  #turnSize = 0
  /** Quiet turns since the last one that was not. */
  #quietTurns = 0
  /** How many more calls run at once. */
  #bypassed = 0

  /** Runs a call at the end of this turn, or before if there are many or few. */
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

const processTurns = new Turns()
