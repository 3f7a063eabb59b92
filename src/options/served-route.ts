import type { VersionCounts } from '../observe/observe.ts'

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
  /** SHA-256 of the plug-in's main module, in hex. */
  readonly digest: string
  readonly function: string
  readonly engine: string
  /** Threads that run its calls; 0: the event loop. */
  readonly workers: number
  /** Why it has threads; undefined if it has none. */
  readonly engineReason: string | undefined
  /** What is wrong with it at present, in words; undefined if nothing is. */
  readonly trouble: string | undefined
  readonly runtime: string
  /** The second version of the plug-in, if calls are split between two. */
  readonly split?: RouteSplit | undefined
}

/** How the calls of a route are split between two versions of its plug-in. */
export interface RouteSplit {
  /** SHA-256 of the second one's main module, in hex. */
  readonly digest: string
  /** What runs the second one, which may be another engine than that of the first. */
  readonly engine: string
  /** Threads that run the calls of the second one; 0: the event loop. */
  readonly workers: number
  /** How many calls of 100 it gets. */
  readonly percent: number
  /** Of the first and the second, since they were opened. */
  readonly counts: readonly [VersionCounts, VersionCounts]
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** There on the routes of wasm-serve. */
    wasmServe?: ServedRoute
  }
}
