import { measureSharedCore } from './cores.ts'
import { renderNumber } from './origin.ts'
import { measureProfile, type ProfileLine, renderProfile } from './profile.ts'
import { measureStartProfiles, renderStartProfiles, type StartProfile } from './start-profile.ts'
import { measureWakeUps, renderWakeUps, type WakeUps } from './wake-ups.ts'

/** Where the time goes: under load, with threads and processes, and until the first answer. */
export interface ProfilesMeasurements {
  readonly lines: readonly ProfileLine[]
  readonly wakeUps: readonly WakeUps[]
  readonly starts: readonly StartProfile[]
  /** CPU time of a fixed loop while another process keeps a core busy, relative to that alone. */
  readonly sharedCore: number
}

/** @param seconds - The length of the run that is profiled. The other runs take a second. */
export async function measureProfiles(
  runs: number,
  seconds: number,
  progress: (line: string) => void,
): Promise<ProfilesMeasurements> {
  const starts = await measureStartProfiles(runs, progress)
  const wakeUps = await measureWakeUps(runs, 1, progress)
  return { lines: await measureProfile(seconds), wakeUps, starts, sharedCore: await measureSharedCore() }
}

export function renderProfiles({ lines, wakeUps, starts, sharedCore }: ProfilesMeasurements): string {
  const factor = renderNumber(sharedCore, 2)
  return [
    renderProfile(lines),
    renderWakeUps(wakeUps),
    `While the other core is busy, a fixed loop takes ${factor} times the CPU.`,
    renderStartProfiles(starts),
  ].join('\n\n')
}
