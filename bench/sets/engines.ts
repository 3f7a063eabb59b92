import { moods, ours, type ScenarioSet } from '../scenario.ts'

/** What threads cost, for a guest that does almost nothing. */
export const smallCalls: ScenarioSet = {
  name: 'engines',
  connections: [100],
  runs: 7,
  scenarios: [
    ours('inline'),
    ours('1 worker', '--workers', '1'),
    ours('2 workers', '--workers', '2'),
    ours('fresh', '--isolation', 'fresh'),
  ],
  compared: [],
  floors: [
    { scenario: '1 worker', to: 'inline', maxCpu: 1.2 },
    { scenario: '1 worker', to: 'inline', minRate: 1 },
  ],
}

/** What threads are for: a guest that computes for 2 ms. @param plugin - Path of `guests/moods.wat`, assembled. */
export function longCalls(plugin: string): ScenarioSet {
  return {
    name: 'engines',
    connections: [20],
    runs: 5,
    scenarios: [
      moods('1 worker, 2 ms', plugin, 'W', '--workers', '1'),
      moods('2 workers, 2 ms', plugin, 'W', '--workers', '2'),
    ],
    compared: [],
    floors: [{ scenario: '2 workers, 2 ms', to: '1 worker, 2 ms', minRate: 1.7 }],
  }
}
