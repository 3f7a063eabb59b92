import { hello, type ScenarioSet, UNBUNDLED } from '../scenario.ts'

/** What it is worth to run the calls of a turn together (`src/route/request-batches.ts`). */
export const batching: ScenarioSet = {
  name: 'batching',
  // As many, and twice and four times as many, as may wait.
  connections: [64, 128, 256],
  scenarios: [
    // Only in the unbundled code can a bench take the batching away, so both run that.
    hello('one by one', '--import', './bench/servers/one-by-one.js', ...UNBUNDLED),
    hello('together', ...UNBUNDLED),
  ],
  compared: [],
  floors: [{ scenario: 'together', to: 'one by one', maxCpu: 1 }],
}
