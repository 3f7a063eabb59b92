import type { VersionCounts } from '../../observe/observe.ts'
import { RouteFacts, type RouteSplit, type ServedRoute } from '../../options/served-route.ts'
import type { ReplicaStatus } from '../replica.ts'

/** A serving process and its last report. */
interface Report {
  readonly number: number
  readonly beat: ReplicaStatus | undefined
}

/**
 * A route that several processes serve: as the first has described it, with the troubles and counts of all.
 *
 * @param index - Its place in the state of this revision.
 * @param reports - Reads the last reports of the processes.
 */
export function sharedRoute(
  route: ServedRoute,
  index: number,
  revision: number,
  reports: () => readonly Report[],
): ServedRoute {
  return new SharedRoute(route, index, revision, reports)
}

class SharedRoute extends RouteFacts implements ServedRoute {
  readonly #split: RouteSplit | undefined
  readonly #index: number
  readonly #revision: number
  readonly #reports: () => readonly Report[]

  constructor(route: ServedRoute, index: number, revision: number, reports: () => readonly Report[]) {
    super(route)
    this.#split = route.split
    this.#index = index
    this.#revision = revision
    this.#reports = reports
  }

  get trouble(): string | undefined {
    for (const { number, beat } of this.#current()) {
      const found = beat?.troubles.find(([index]) => index === this.#index)
      if (found) return `process ${number}: ${found[1]}`
    }
    return undefined
  }

  get split(): RouteSplit | undefined {
    if (!this.#split) return undefined
    const counts = this.#current().flatMap(
      ({ beat }) => beat?.splits.find(([index]) => index === this.#index)?.[1] ?? [],
    )
    const sum = (version: 0 | 1) => addCounts(counts.filter((_, place) => place % 2 === version))
    return { ...this.#split, counts: [sum(0), sum(1)] }
  }

  #current(): readonly Report[] {
    return this.#reports().filter(({ beat }) => beat?.revision === this.#revision)
  }
}

function addCounts(counts: readonly VersionCounts[]): VersionCounts {
  return counts.reduce(
    (sum, { calls, failures }) => ({ calls: sum.calls + calls, failures: sum.failures + failures }),
    { calls: 0, failures: 0 },
  )
}
