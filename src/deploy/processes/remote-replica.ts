import { ChangeRefusedError } from '../../errors/errors.ts'
import type { Configuration } from '../desired-state.ts'
import type { Edits } from '../edits.ts'
import {
  type PreparedRoutes,
  type Replica,
  type ReplicaStatus,
  type ServedState,
  viewOf,
} from '../replica.ts'
import type { Answers, Link } from './link.ts'

/** The requests of {@link Replica}, as messages. */
export type ReplicaRequests = {
  readonly prepare: readonly [{ readonly state: SentState; readonly reason: string }, PreparedRoutes]
  readonly commit: readonly [revision: number, unknown]
  readonly abort: readonly [revision: number, unknown]
  readonly status: readonly [undefined, ReplicaStatus]
}

/** A state whose configuration is sent only if the other end does not have it. */
export interface SentState {
  readonly revision: number
  /** The number of the configuration in this link. */
  readonly number: number
  readonly configuration?: Configuration
  readonly edits: Edits
}

/** A state as it is sent first: its configuration has the number 1. */
export function firstState({ revision, configuration, edits }: ServedState): SentState {
  return { revision, number: 1, configuration, edits }
}

/**
 * A replica at the other end of a link. The configuration, which may be large, is sent once: both ends keep the
 * live one and the one being prepared.
 *
 * @param first - The configuration that was sent by {@link firstState}.
 */
export function remoteReplica(link: Link<ReplicaRequests>, first: Configuration): Replica {
  let last = 1
  let live = { number: 1, configuration: first }
  let prepared = live
  return {
    prepare({ revision, configuration, edits }, reason, signal) {
      const known = configuration === live.configuration
      prepared = known ? live : { number: ++last, configuration }
      const state = { revision, number: prepared.number, edits, ...(!known && { configuration }) }
      return link.ask('prepare', { state, reason }, signal)
    },
    async commit(revision) {
      await link.ask('commit', revision)
      live = prepared
    },
    async abort(revision) {
      await link.ask('abort', revision)
    },
    status: () => link.ask('status', undefined),
  }
}

/** Answers for a replica. @param first - See {@link remoteReplica}. */
export function answersOf(replica: Replica, first: Configuration): Answers<ReplicaRequests> {
  let live = { number: 1, configuration: first }
  let prepared = live
  return {
    async prepare(
      { state: { revision, number, edits, configuration = live.configuration }, reason },
      signal,
    ) {
      if (configuration === live.configuration && number !== live.number)
        throw new ChangeRefusedError(`configuration ${number} was not sent`)
      prepared = { number, configuration }
      const { routes, kept } = await replica.prepare({ revision, configuration, edits }, reason, signal)
      return { routes: routes.map(viewOf), kept }
    },
    async commit(revision) {
      await replica.commit(revision)
      live = prepared
    },
    abort: (revision) => replica.abort(revision),
    status: () => replica.status(),
  }
}
