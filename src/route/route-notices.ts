import type { FastifyBaseLogger } from 'fastify'
import { takesMessages } from '../guest/streams/stream-imports.ts'
import { instancesOf, keepsMemory, type OpenRoute } from './open-route.ts'

/** Most names in a line of the log. */
const MAX_NAMES = 10

/** What the log says about all routes of an app together. */
export class RouteNotices {
  /** Plug-ins that a route with the contract websocket serves. */
  readonly #served = new Set<string>()
  /** Plug-ins that can receive messages, and that a route with another contract serves. */
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
    // A plug-in that can receive messages probably needs that contract.
    for (const plugin of this.#taking)
      if (!this.#served.has(plugin))
        log.info({ plugin }, 'ws_receive gets messages only with the contract websocket')
    if (maxInstances === undefined || this.#instances <= maxInstances) return
    const plugins = [...this.#keeping]
    const message =
      'plug-ins that are loaded on their first call need more instances than maxInstances allows: the least recently used ones are closed, and lose the memory of earlier calls; raise maxInstances, or set load to eager for plug-ins that need their memory'
    log.warn({ plugins, routes: this.#routes, instances: this.#instances, maxInstances }, message)
  }
}
