import { hello, type ScenarioSet } from '../scenario.ts'

/** The command before it is bundled: only there can a bench take the batching away, and both scenarios run the same code. */
const UNBUNDLED = ['lib/cli.js', '--port', '0']

/** What it is worth to run the calls of a turn together (`src/route/end-of-turn.ts`). */
export const batching: ScenarioSet = {
  name: 'batching',
  // As many, and twice and four times as many, as may wait.
  connections: [64, 128, 256],
  scenarios: [
    hello('one by one', '--import', './bench/servers/one-by-one.js', ...UNBUNDLED),
    hello('together', ...UNBUNDLED),
  ],
  compared: [],
  floors: [{ scenario: 'together', to: 'one by one', maxCpu: 1 }],
}
