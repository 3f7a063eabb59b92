import { type AdminApi, type Live, type Plugin, Refused, type Route } from './admin-api.ts'
import { LiveHistory, type Which } from './history.ts'

/** How often numbers are asked for, in milliseconds. */
const EVERY_MS = 1_000

/** What the page is told of. */
export interface Listener {
  live(): void
  changed(): void
  /** The server does not answer, or refuses; undefined: it answers again. */
  trouble(problem: Refused | undefined): void
}

/** The server as the console knows it: what it serves, and its numbers of the last minute. */
export class Server {
  readonly api: AdminApi
  readonly history = new LiveHistory()
  routes: readonly Route[] = []
  plugins: readonly Plugin[] = []
  /** Whether numbers stay as they are. */
  isPaused = false
  readonly #listener: Listener
  #revision: number | undefined
  #isInTrouble = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  constructor(api: AdminApi, listener: Listener) {
    this.api = api
    this.#listener = listener
  }

  /** @throws {@link Refused} if the first answer is a refusal. */
  async start(): Promise<void> {
    await this.#look()
    this.#again()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  /** Looks now: something was changed. */
  async refresh(): Promise<void> {
    this.#revision = undefined
    await this.#look()
  }

  pause(isPaused: boolean): void {
    this.isPaused = isPaused
  }

  #again(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(async () => {
      if (!this.isPaused && !document.hidden) await this.#tryLook()
      this.#again()
    }, EVERY_MS)
  }

  async #tryLook(): Promise<void> {
    try {
      await this.#look()
      if (this.#isInTrouble) this.#listener.trouble(undefined)
      this.#isInTrouble = false
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.#isInTrouble = true
      this.#listener.trouble(error)
    }
  }

  async #look(): Promise<void> {
    const live = await this.api.get<Live>('/api/live')
    if (this.#isClosed) return
    const isRestarted = live.ms < (this.history.last?.ms ?? 0)
    this.history.add(live)
    if (live.revision !== this.#revision || isRestarted) {
      const [routes, plugins] = await Promise.all([
        this.api.get<Route[]>('/api/routes'),
        this.api.get<Plugin[]>('/api/plugins'),
      ])
      this.routes = routes
      this.plugins = plugins
      this.#revision = live.revision
      this.#listener.changed()
    }
    this.#listener.live()
  }
}

/** By what the meters know a route. */
export function whichOf({ host = '', url, digest, split }: Route): Which {
  return { routes: [host + url], digests: split ? [digest, split.digest] : [digest] }
}

/** In Fastify's route syntax two colons are one. */
export function placeOf({ host = '', url }: Route): string {
  return host + url.replaceAll('::', ':')
}
