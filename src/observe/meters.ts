import type { Engine } from '../engine/engine.ts'
import { Counts } from './counts.ts'
import { meterEngine } from './metered-engine.ts'
import { type MeterLabels, RouteMeter } from './route-meter.ts'

/** How many versions that are not served any more are told apart. */
const MOST_PAST = 100

/** Where older ones are counted, so that a server that is reloaded for years has no more to tell. */
const OTHER: MeterLabels = { route: 'other', plugin: 'other', digest: 'other' }

const RELOAD_RESULTS = ['ok', 'refused'] as const

/** All that a server counts of its routes, through all their reloads. There is none unless somebody may ask. */
export class Meters {
  /** Of files, configuration or by the API: whether what was new is served now. */
  readonly reloads = new Counts<(typeof RELOAD_RESULTS)[number]>(RELOAD_RESULTS)
  readonly #meters = new Map<string, RouteMeter>()

  /** In the order in which they came. */
  get all(): readonly RouteMeter[] {
    return [...this.#meters.values()]
  }

  /** The meter of one version on one route: that of before, if there is one. */
  of(labels: MeterLabels): RouteMeter {
    const key = keyOf(labels)
    const meter = this.#meters.get(key) ?? new RouteMeter(labels)
    this.#meters.set(key, meter)
    return meter
  }

  /** The engine as its calls are counted. */
  engine(engine: Engine, meter: RouteMeter): Engine {
    return meterEngine(engine, meter, () => this.#left(meter))
  }

  /** Forgets a meter that was asked for, and then no engine came: of what never went live there may be any number. */
  unused(meter: RouteMeter): void {
    if (!meter.hasOpened) this.#meters.delete(keyOf(meter.labels))
  }

  #left(meter: RouteMeter): void {
    if (meter.isOpen || meter.labels === OTHER) return
    const key = keyOf(meter.labels)
    this.#meters.delete(key)
    this.#meters.set(key, meter) // behind those that left before
    const past = this.all.filter(({ isOpen, labels }) => !isOpen && labels !== OTHER)
    for (const oldest of past.slice(0, -MOST_PAST)) {
      this.#meters.delete(keyOf(oldest.labels))
      this.of(OTHER).add(oldest)
    }
  }
}

function keyOf({ route, plugin, digest }: MeterLabels): string {
  return JSON.stringify([route, plugin, digest])
}
