import type { Engine } from '../engine/engine.ts'
import type { Caller } from '../runtime/runtime.ts'
import { MeteredCall, type RouteMeter } from './route-meter.ts'
import type { EngineStats } from './stats.ts'

/**
 * An engine whose calls are counted. How one ends is told by who answers it: see {@link meterContract} and
 * `CallTiming.failed`.
 *
 * @param closed - Told when it is closed.
 */
export function meterEngine(engine: Engine, meter: RouteMeter, closed: () => void): Engine {
  meter.opened(engine)
  return new MeteredEngine(engine, meter, closed)
}

class MeteredEngine implements Engine {
  readonly name: Engine['name']
  readonly ready: Promise<void>
  readonly #engine: Engine
  readonly #meter: RouteMeter
  readonly #closed: () => void

  constructor(engine: Engine, meter: RouteMeter, closed: () => void) {
    this.name = engine.name
    this.ready = engine.ready
    this.#engine = engine
    this.#meter = meter
    this.#closed = closed
  }

  get trouble(): string | undefined {
    return this.#engine.trouble
  }

  get stats(): EngineStats {
    return this.#engine.stats
  }

  call(exportName: string, input: Uint8Array, caller: Caller): ReturnType<Engine['call']> {
    caller.callTiming = new MeteredCall(this.#meter)
    return this.#engine.call(exportName, input, caller)
  }

  async close(): Promise<void> {
    await this.#engine.close()
    this.#meter.closed(this.#engine)
    this.#closed()
  }
}
