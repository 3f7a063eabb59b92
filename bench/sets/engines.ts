import { cpus } from 'node:os'
import { echoing, ours, type ScenarioSet } from '../scenario.ts'

/** 1, 2, 4 and so on: as many as there are cores, and 2 at least. */
const THREADS = [1, 2, 4, 8, 16, 32, 64].filter((count) => count <= Math.max(2, cpus().length))

const named = (count: number) => (count === 1 ? '1 worker' : `${count} workers`)

/** What threads and processes cost, for a guest that does almost nothing. */
export const smallCalls: ScenarioSet = {
  name: 'engines',
  connections: [100],
  scenarios: [
    ours('inline'),
    ...THREADS.map((count) => ours(named(count), '--workers', String(count))),
    ours('1 process', '--engine', 'subprocess'),
    ours('fresh', '--isolation', 'fresh'),
    ours('recycle 100', '--recycle', '100'),
    ours('1 worker, fresh', '--workers', '1', '--isolation', 'fresh'),
  ],
  compared: [],
  floors: [
    { scenario: '1 worker', to: 'inline', maxCpu: 1.5 },
    { scenario: '1 worker', to: 'inline', minRate: 0.7 },
    { scenario: '1 process', to: '1 worker', maxCpu: 2 },
  ],
}

/** Whose calls are worth the way to a thread: a guest that computes for 50 us. @param plugin - As {@link longCalls}. */
export function middleCalls(plugin: string): ScenarioSet {
  return {
    name: 'engines',
    connections: [100],
    scenarios: [
      echoing('inline, 50 us', plugin, 'w'),
      echoing('1 worker, 50 us', plugin, 'w', '--workers', '1'),
    ],
    compared: [],
    floors: [
      { scenario: '1 worker, 50 us', to: 'inline, 50 us', maxCpu: 1.25 },
      { scenario: '1 worker, 50 us', to: 'inline, 50 us', minRate: 1 },
    ],
  }
}

/** What it costs to hand a body of 64 KiB to a thread and back. @param plugin - Path of `guests/copy.wat`, assembled. */
export function largeBodies(plugin: string): ScenarioSet {
  const body = 'Bob Morane and the 7 crosses of lead; '.repeat(1_725).slice(0, 65_536)
  return {
    name: 'engines',
    connections: [100],
    scenarios: [
      echoing('inline, 64 KiB', plugin, body),
      echoing('1 worker, 64 KiB', plugin, body, '--workers', '1'),
    ],
    compared: [],
    floors: [
      { scenario: '1 worker, 64 KiB', to: 'inline, 64 KiB', maxCpu: 1.5 },
      { scenario: '1 worker, 64 KiB', to: 'inline, 64 KiB', minRate: 0.7 },
    ],
  }
}

/** What threads are for: a guest that computes for 2 ms. @param plugin - Path of `guests/moods.wat`, assembled. */
export function longCalls(plugin: string): ScenarioSet {
  return {
    name: 'engines',
    connections: [20],
    scenarios: [
      echoing('1 worker, 2 ms', plugin, 'W', '--workers', '1'),
      echoing('2 workers, 2 ms', plugin, 'W', '--workers', '2'),
    ],
    compared: [],
    floors: [{ scenario: '2 workers, 2 ms', to: '1 worker, 2 ms', minRate: 1.7 }],
  }
}
