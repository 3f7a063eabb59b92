import { ours, type Scenario, type ScenarioSet } from '../scenario.ts'

/** What it costs to be seen: each of these is off unless it is asked for. */
export const operations: ScenarioSet = {
  name: 'operations',
  connections: [100],
  scenarios: [
    ours('off'),
    ours('--admin', '--admin', '127.0.0.1:0'),
    ours('--access-log', '--access-log'),
    ours('combined', '--access-log', '--access-log-format', 'combined'),
    toNobody(ours('--otel', '--otel')),
  ],
  compared: [],
  floors: [
    { scenario: '--admin', to: 'off', maxCpu: 1.03 },
    { scenario: '--access-log', to: 'off', maxCpu: 1.35 },
    { scenario: '--otel', to: 'off', maxCpu: 1.4 },
  ],
}

/** Without an exporter the SDK records no spans: this is the cost on our side. */
function toNobody({ command, ...scenario }: Scenario): Scenario {
  return { ...scenario, command: ['env', 'OTEL_TRACES_EXPORTER=none', ...command] }
}
