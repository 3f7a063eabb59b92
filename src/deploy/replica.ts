import type { FastifyInstance } from 'fastify'
import type { VersionCounts } from '../observe/observe.ts'
import { RouteFacts, type ServedRoute } from '../options/served-route.ts'
import type { RunningServer } from '../server/server.ts'
import type { Configuration } from './desired-state.ts'
import type { Edits } from './edits.ts'
import type { ResolvedState, StateChange } from './resolve.ts'

/**
 * Serves a state: in this process, in another one, or in several. A change is prepared, then committed or aborted. This is
 * the only protocol of a change.
 */
export interface Replica {
  /**
   * Loads, tries and smokes a state. It is not served yet. An earlier state that was neither committed nor aborted is
   * aborted first.
   *
   * @param reason - The trigger of the change, for logs.
   * @param signal - Aborts it.
   * @throws the reason that it cannot be served; `ChangeRefusedError` if its revision is not newer than the live one.
   */
  prepare(state: ServedState, reason: string, signal?: AbortSignal): Promise<PreparedRoutes>

  /**
   * Makes the prepared state live in one step: no request that begins afterwards meets the old one.
   *
   * @throws `ChangeRefusedError` if this revision is not prepared.
   */
  commit(revision: number): Promise<void>

  /** Releases the prepared state. Does nothing if this revision is not prepared. */
  abort(revision: number): Promise<void>

  status(): Promise<ReplicaStatus>
}

/** A state to serve: plain data. The bytes of its modules are fetched by digest. */
export interface ServedState {
  /** The revision that its owner gives it. */
  readonly revision: number
  /** Two states with the same object need it only once. */
  readonly configuration: Configuration
  readonly edits: Edits
}

/** The result of a preparation. */
export interface PreparedRoutes {
  /** The routes in the order of the state. */
  readonly routes: readonly ServedRoute[]
  /** The number of plug-ins that kept their instances. */
  readonly kept: number
}

export interface ReplicaStatus {
  /** The live revision. */
  readonly revision: number
  /** The revision that is prepared; undefined if there is none. */
  readonly prepared: number | undefined
  /** Resident memory of its processes, in bytes. */
  readonly memoryBytes: number
  /** Problems of live routes, by their place in the state. */
  readonly troubles: readonly (readonly [index: number, trouble: string])[]
  /** Calls of the two versions of routes that are split, by their place in the state. */
  readonly splits: readonly (readonly [index: number, counts: readonly [VersionCounts, VersionCounts]])[]
}

/** A replica that resolves states in this process, for the deployments of this process. */
export interface OwnReplica extends Replica {
  /** Whether guests run in this process. Otherwise plug-ins are only read here, and compiled elsewhere. */
  readonly compiles: boolean
  /** Answers requests to the live routes without a socket. Each commit may replace it. */
  readonly app: FastifyInstance
  readonly routes: readonly ServedRoute[]
  prepare(state: ServedState & StateChange, reason: string, signal?: AbortSignal): Promise<ResolvedRoutes>
  /** Attaches the server whose app a commit replaces, if it is in this process. */
  follow?(server: Pick<RunningServer, 'replace'>): void
  /** Only after the live app has closed. */
  close(): Promise<void>
}

export interface ResolvedRoutes extends PreparedRoutes {
  readonly resolved: ResolvedState
}

/** A served route as data. */
export function viewOf(route: ServedRoute): ServedRoute {
  const { trouble, split } = route
  return { ...new RouteFacts(route), trouble, split }
}

/** The problems and counts of routes, as data. */
export function countsOf(routes: readonly ServedRoute[]): Pick<ReplicaStatus, 'troubles' | 'splits'> {
  return {
    troubles: routes.flatMap(({ trouble }, index) => (trouble === undefined ? [] : [[index, trouble]])),
    splits: routes.flatMap(({ split }, index) => {
      if (!split) return []
      const [live, next] = split.counts
      return [[index, [{ ...live }, { ...next }]] as const]
    }),
  }
}
