import { KINDS } from '../../../bench/hostile/kinds.ts'
import { guestBytes } from '../guest.ts'
import type { Random } from '../random.ts'

/** A module made to do harm. */
export interface HostileModule {
  readonly name: string
  bytes(): Uint8Array
  /** Options of its route. */
  readonly route: object
  readonly encoding?: string
}

/** How a hostile module runs: the thread or process is ended at the deadline, or the watchdog ends a serving process. */
const PLACES = [
  { workers: 1, timeoutMs: 500 },
  { workers: 1, timeoutMs: 500 },
  { engine: 'subprocess', workers: 1, timeoutMs: 500 },
]

/** Never returns, on the event loop: only the end of the process ends it. */
export const BLOCKER: HostileModule = {
  name: 'a loop on the event loop',
  bytes: () => guestBytes('(module (func (export "run") (result i32) (loop $l (br $l)) (i32.const 0)))'),
  route: { engine: 'inline' },
}

export function chooseHostile(random: Random): HostileModule {
  const kind = KINDS[Math.floor(random() * KINDS.length)]
  if (!kind) throw new Error('no kind of hostile module')
  const place = PLACES[Math.floor(random() * PLACES.length)]
  return { ...kind, route: { ...place, ...kind.route } }
}
