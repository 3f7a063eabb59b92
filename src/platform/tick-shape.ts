import { executionAsyncResource } from 'node:async_hooks'

/**
 * One of the objects that `process.nextTick` queues, kept for good. To be imported first of all.
 *
 * V8 forgets the shape of objects of which none is left when it collects. `nextTick` builds its objects with computed
 * keys, and the code that V8 has for that (`DefineKeyedOwnPropertyInLiteral`) gives up for good on a shape that was
 * forgotten: each tick of the process takes 0.2 us from then on, not 0.03. HTTP needs a dozen for a request: 2.5 us.
 * A program that is loaded is collected, so nearly each server begins like that. Seen on Node 20 to 26.
 */
export const keptTicks: object[] = []

process.nextTick(() => keptTicks.push(executionAsyncResource()))
