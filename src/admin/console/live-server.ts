import { useEffect, useState } from 'preact/hooks'
import {
  type AdminApi,
  AdminApiError,
  type LiveCounts,
  type PluginInfo,
  type RouteInfo,
} from './admin-api.ts'
import { LiveHistory, type MeterFilter } from './live-history.ts'

/** Between two requests for the counts, in milliseconds. */
const POLL_MS = 1_000

/** The state of the server that the views draw: its routes, its plug-ins, and its counts of the last minute. */
export class LiveServer {
  readonly api: AdminApi
  readonly history = new LiveHistory()
  routes: readonly RouteInfo[] = []
  plugins: readonly PluginInfo[] = []
  /** While true, the state stays as it is. */
  isPaused = false
  /** Why the last request failed; undefined if it did not. */
  problem: AdminApiError | undefined
  /** How many times the counts were read. */
  polls = 0
  readonly #onUpdate: () => void
  #revision: number | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  /** @param onUpdate - Called after each change of the state. */
  constructor(api: AdminApi, onUpdate: () => void) {
    this.api = api
    this.#onUpdate = onUpdate
  }

  /** @throws {@link AdminApiError} if the first request fails. */
  async start(): Promise<void> {
    await this.#read()
    this.#schedule()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  /** Reads all of the state now, after a change. A failure becomes the `problem`. */
  async refresh(): Promise<void> {
    this.#revision = undefined
    await this.#poll()
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(async () => {
      if (!this.isPaused && !document.hidden) await this.#poll()
      this.#schedule()
    }, POLL_MS)
  }

  async #poll(): Promise<void> {
    try {
      await this.#read()
      this.problem = undefined
    } catch (error) {
      if (!(error instanceof AdminApiError)) throw error
      this.problem = error
    }
    if (!this.#isClosed) this.#onUpdate()
  }

  async #read(): Promise<void> {
    const counts = await this.api.get<LiveCounts>('/api/live')
    const isRestarted = counts.ms < (this.history.last?.ms ?? 0)
    if (counts.revision !== this.#revision || isRestarted) {
      const [routes, plugins] = await Promise.all([
        this.api.get<RouteInfo[]>('/api/routes'),
        this.api.get<PluginInfo[]>('/api/plugins'),
      ])
      this.routes = routes
      this.plugins = plugins
      this.#revision = counts.revision
    }
    this.history.add(counts)
    this.polls++
  }
}

/** What a view is drawn from. It is made anew when the address changes. */
export interface ViewProps {
  readonly server: LiveServer
  /** What follows the name of the view in the address. */
  readonly rest: string
}

/**
 * A resource of the admin API, read when the view appears and then with the live counts.
 *
 * @param every - 2: with every second of them.
 * @returns undefined before the first answer. A failure keeps the last one: the page shows why the server is silent.
 */
export function usePolled<Resource>(server: LiveServer, path: string, every: number): Resource | undefined {
  const [resource, setResource] = useState<Resource>()
  useEffect(() => {
    server.api.get<Resource>(path).then(setResource, (error) => {
      if (!(error instanceof AdminApiError)) throw error
    })
  }, [server, path, Math.floor(server.polls / every)])
  return resource
}

/** The meters that count the calls of some routes. */
export function metersOfRoutes(routes: readonly RouteInfo[]): MeterFilter {
  return {
    routes: routes.map(({ host = '', url }) => host + url),
    digests: routes.flatMap(({ digest, split }) => (split ? [digest, split.digest] : [digest])),
  }
}

/** Host and path of a route. In Fastify's route syntax two colons stand for one. */
export function addressOf({ host = '', url }: RouteInfo): string {
  return host + url.replaceAll('::', ':')
}
