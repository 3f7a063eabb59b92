import { ChangeRefusedError } from '../../errors/errors.ts'
import type { Configuration } from '../desired-state.ts'
import type { Edits } from '../edits.ts'
import type { PreparedRoutes, ServedState, ServingSide, ServingStatus } from '../serving-side.ts'
import type { Answers, Link } from './link.ts'

/** The requests of {@link ServingSide}, as messages. */
export type SideRequests = {
  readonly prepare: readonly [{ readonly state: SentState; readonly reason: string }, PreparedRoutes]
  readonly commit: readonly [revision: number, unknown]
  readonly abort: readonly [revision: number, unknown]
  readonly status: readonly [undefined, ServingStatus]
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
 * A serving side at the other end of a link. The configuration, which may be large, is sent once: both ends keep the
 * live one and the one being prepared.
 *
 * @param first - The configuration that was sent by {@link firstState}.
 */
export function remoteSide(link: Link<SideRequests>, first: Configuration): ServingSide {
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

/** Answers for a serving side. @param first - See {@link remoteSide}. */
export function answersOf(side: ServingSide, first: Configuration): Answers<SideRequests> {
  let live = { number: 1, configuration: first }
  let prepared = live
  return {
    prepare({ state: { revision, number, edits, configuration = live.configuration }, reason }, signal) {
      if (configuration === live.configuration && number !== live.number)
        throw new ChangeRefusedError(`configuration ${number} was not sent`)
      prepared = { number, configuration }
      return side.prepare({ revision, configuration, edits }, reason, signal)
    },
    async commit(revision) {
      await side.commit(revision)
      live = prepared
    },
    abort: (revision) => side.abort(revision),
    status: () => side.status(),
  }
}
