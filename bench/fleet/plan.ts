import { FAULT_KINDS, type PlannedFault } from '../../test/support/fleet/faults.ts'
import type { Random } from '../../test/support/random.ts'

/** The mean number of changes from the beginning of a fault to that of the next one. */
const SPACING = 4

/** The longest fault, in changes. */
const LONGEST = 4

/** Faults at random during changes; the store has one at a time. The last one ends after the last change. */
export function planFaults(changes: number, random: Random): PlannedFault[] {
  const faults: PlannedFault[] = []
  const below = (limit: number) => Math.floor(random() * limit)
  let storeUntil = 0
  for (let from = 2; from <= changes; from += 1 + below(2 * SPACING - 1)) {
    const kind = FAULT_KINDS[below(FAULT_KINDS.length)]
    const changes = 1 + below(LONGEST)
    const isOfStore = kind?.startsWith('store ') ?? false
    if (!kind || (isOfStore && from < storeUntil)) continue
    if (isOfStore) storeUntil = from + changes
    faults.push({ kind, from, changes })
  }
  return [...faults, { kind: 'node silent', from: changes, changes: 1 }]
}
