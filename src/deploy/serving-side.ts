import type { VersionCounts } from '../observe/observe.ts'
import type { ServedRoute } from '../options/served-route.ts'
import type { Configuration } from './desired-state.ts'
import type { Edits } from './edits.ts'

/**
 * What passes between a control side, which owns the desired state, and a serving side, which serves it. A change is
 * prepared by all serving sides, then committed by all or by none.
 */
export interface ServingSide {
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

  status(): Promise<ServingStatus>
}

/** A state to serve: plain data. The bytes of its modules are fetched by digest. */
export interface ServedState {
  /** The revision that the control side gives it. */
  readonly revision: number
  /** Two states with the same object need it only once. */
  readonly configuration: Configuration
  readonly edits: Edits
}

/** The result of a preparation. */
export interface PreparedRoutes {
  /** In the order of the state. */
  readonly routes: readonly ServedRoute[]
  /** The number of plug-ins that kept their instances. */
  readonly kept: number
}

export interface ServingStatus {
  /** The live revision. */
  readonly revision: number
  /** The revision that is prepared; undefined if there is none. */
  readonly prepared: number | undefined
  /** Resident memory of the process, in bytes. */
  readonly memoryBytes: number
  /** Problems of live routes, by their place in the state. */
  readonly troubles: readonly (readonly [index: number, trouble: string])[]
  /** Calls of the two versions of routes that are split, by their place in the state. */
  readonly splits: readonly (readonly [index: number, counts: readonly [VersionCounts, VersionCounts]])[]
}
