import type { FastifyBaseLogger } from 'fastify'
import { takesMessages } from '../guest/streams/stream-imports.ts'
import { instancesOf, keepsMemory, type OpenRoute } from './open-route.ts'

/** Most names in a line of the log. */
const MAX_NAMES = 10

/** What the log says about all routes of an app together. */
export class RouteNotices {
  /** Names of plug-ins that are served with messages. */
  readonly #served = new Set<string>()
  /** Names of plug-ins that have exports with messages, among those that are served without. */
  readonly #taking = new Set<string>()
  /** The names of some plug-ins that are loaded on their first call and keep memory between calls. */
  readonly #keeping = new Set<string>()
  #routes = 0
  #instances = 0

  note(route: OpenRoute): void {
    const { options, plugin, streams } = route
    if (options.contract === 'websocket') this.#served.add(plugin.name)
    else if (streams && takesMessages(plugin)) this.#taking.add(plugin.name)
    if (!plugin.compile || !keepsMemory(route)) return
    if (this.#keeping.size < MAX_NAMES) this.#keeping.add(plugin.name)
    this.#routes++
    this.#instances += instancesOf(route)
  }

  log(maxInstances: number | undefined, log: FastifyBaseLogger): void {
    // One that is served without messages at all was probably meant to have them.
    for (const plugin of this.#taking)
      if (!this.#served.has(plugin))
        log.info({ plugin }, 'ws_receive gets messages only with the contract websocket')
    if (maxInstances === undefined || this.#instances <= maxInstances) return
    const plugins = [...this.#keeping]
    const message =
      'more plug-ins are loaded on their first call than instances may be open: those that were not called for longest are closed, and lose the memory of earlier calls; raise maxInstances, or set load eager for those that need it'
    log.warn({ plugins, routes: this.#routes, instances: this.#instances, maxInstances }, message)
  }
}
