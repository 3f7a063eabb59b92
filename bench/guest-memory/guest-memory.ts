import type { Bench } from '../bench.ts'
import { buildGuests, GUESTS, type MemoryGuest } from './guests.ts'
import { measureWorkload, type WorkloadMeasurement } from './measure.ts'
import { plotWorkloads, renderGuests } from './report.ts'
import { WORKLOADS } from './workloads.ts'

/** The measurements of a guest, or the reason that there are none. */
export type GuestMeasurement = Pick<MemoryGuest, 'language' | 'manager'> &
  (
    | { readonly missing: string }
    | { readonly bytes: number; readonly workloads: readonly WorkloadMeasurement[] }
  )

/** Measures the cost of guests' memory management. Guests without an installed toolchain are left out, and named. */
export const guestMemory: Bench = {
  name: 'guest-memory',
  minutes: 6,
  async run({ calls, quick }, progress) {
    const most = Math.min(10_000, calls ?? (quick ? 200 : 10_000))
    const measured: GuestMeasurement[] = []
    for (const built of await buildGuests(GUESTS, progress)) {
      const { language, manager } = built.guest
      if ('missing' in built) {
        measured.push({ language, manager, missing: built.missing })
        continue
      }
      const workloads: WorkloadMeasurement[] = []
      for (const workload of WORKLOADS) workloads.push(await measureWorkload(built.path, workload, most))
      measured.push({ language, manager, bytes: built.bytes, workloads })
      progress(
        `${language}, ${manager}: ${workloads.map(({ workload, callMs }) => `${workload} ${callMs.toFixed(3)} ms`).join(', ')}`,
      )
    }
    return {
      args: ` --calls ${most}`,
      markdown: renderGuests(measured, true),
      data: { measured },
      plots: plotWorkloads(measured),
    }
  },
}
