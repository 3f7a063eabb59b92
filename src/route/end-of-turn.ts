// Not the global one: tests put a simulated clock in its place.
import { setImmediate } from 'node:timers'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { EngineHolder, RunCall } from './route.ts'

/**
 * Runs the calls that came in one turn of the event loop together at its end, those of all routes: first what has come
 * is read, then the guests run and their answers are written, one after the other. To go back and forth between the
 * two for each request costs a quarter of its CPU: each has the processor's caches for itself, and a client that
 * sleeps is woken for each answer, not for the first one of many.
 *
 * Calls for threads need not wait: their answers are collected once a turn anyway.
 */
export function atEndOfTurn(run: RunCall, holder: EngineHolder): RunCall {
  return (request, reply) => {
    if (holder.engine.name === 'inline') turns.add(run, request, reply)
    else run(request, reply)
  }
}

interface DueCall {
  readonly run: RunCall
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

/** Turns with fewer calls than this are not worth waiting for: it costs 1 us a call. */
const CROWD = 3

/** After so many of them in a row, calls run at once, */
const ALONE = 16

/** as many as this, before it is tried again. */
const AT_ONCE = 500

/** Many more than this and their requests are no longer in the processor's caches when they run. */
const MOST = 64

class Turns {
  #due: DueCall[] = []
  /** Turns without a crowd, since the last one that had one. */
  #alone = 0
  /** How many more calls run at once. */
  #atOnce = 0

  add(run: RunCall, request: FastifyRequest, reply: FastifyReply): void {
    if (this.#atOnce > 0) {
      this.#atOnce--
      run(request, reply)
      return
    }
    const waiting = this.#due.push({ run, request, reply })
    if (waiting === 1) setImmediate(this.#end)
    if (waiting === MOST) runAll(this.#due.splice(0))
  }

  readonly #end = (): void => {
    const due = this.#due
    this.#due = []
    this.#alone = due.length < CROWD ? this.#alone + 1 : 0
    if (this.#alone >= ALONE) {
      this.#alone = 0
      this.#atOnce = AT_ONCE
    }
    runAll(due)
  }
}

/** What one of them throws is a bug of ours, and not the fault of the others. */
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

const turns = new Turns()
