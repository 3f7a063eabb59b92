/** What answers at a route; an `onRoute` hook finds it in the route's `config.wasmServe`. */
export interface ServedRoute {
  /** `*` alone: all that the app knows. */
  readonly methods: readonly string[]
  readonly url: string
  /** The only host that it answers to, if it has one. */
  readonly host: string | undefined
  /** `raw`, `http`, `simplism`, or what a contract of the user's own calls itself. */
  readonly contract: string
  readonly description: string | undefined
  /** Status of the answer when the guest says no. */
  readonly errorStatus: number
  readonly plugin: string
  readonly function: string
  readonly engine: string
  /** Threads that run its calls; 0: the event loop. */
  readonly workers: number
  /** Why it has threads; undefined if it has none. */
  readonly engineReason: string | undefined
  /** What is wrong with it at present, in words; undefined if nothing is. */
  readonly trouble: string | undefined
  readonly runtime: string
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** There on the routes of wasm-serve. */
    wasmServe?: ServedRoute
  }
}
