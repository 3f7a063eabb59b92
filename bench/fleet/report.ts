import type { FaultyResult } from '../../test/support/fleet/faults.ts'
import { renderNumber } from '../origin.ts'
import { verdict } from '../report.ts'
import { percentile } from '../statistics.ts'
import type { ConvergenceMeasurement } from './convergence.ts'
import type { AwayMeasurement } from './store-away.ts'

export interface FleetMeasurements {
  readonly convergence: ConvergenceMeasurement
  readonly faults: FaultyResult
  readonly away: AwayMeasurement
}

/** Maximum p99 from sending a change until all nodes have answered with it. */
const MAX_SERVED_MS = 500

/** Maximum time from the end of the last fault until all nodes serve the newest revision: a poll, and its application. */
const MAX_CONVERGED_MS = 2_500

export function renderFleet({ convergence, faults, away }: FleetMeasurements): string {
  return [renderConvergence(convergence), renderFaults(faults), renderAway(away)].join('\n\n')
}

function renderConvergence({ nodes, answered, served }: ConvergenceMeasurement): string {
  const row = (what: string, times: readonly number[], result = '') => {
    const figures = [50, 90, 99, 100].map((percent) => renderNumber(percentile(times, percent), 0))
    return `| ${[what, times.length, ...figures, result].join(' | ')} |`
  }
  return [
    `From sending a change to one of ${nodes} nodes, in ms:`,
    '',
    '| until | changes | p50 | p90 | p99 | max | |',
    '| --- | ---: | ---: | ---: | ---: | ---: | --- |',
    row('it was answered', answered),
    row('all nodes answered with it', served, verdict(percentile(served, 99) <= MAX_SERVED_MS)),
  ].join('\n')
}

function renderFaults(result: FaultyResult): string {
  const { requests, wrongBodies, staleBodies, errors, failed, failedOfKilled, changes, convergedMs } = result
  const isRight = wrongBodies + staleBodies + errors + failed + result.problems.length === 0
  const counted = Object.entries(result.faults).map(([kind, count]) => `${kind} ${count}`)
  const rows: [string, string | number][] = [
    ['requests', renderNumber(requests, 0)],
    ['wrong bodies', wrongBodies],
    ['answers with an older version, after the fleet had converged', staleBodies],
    ['answers with an error', errors],
    ['requests that failed, without those of killed nodes', failed],
    ['requests that failed on connections of killed nodes', failedOfKilled],
    ['changes that were acknowledged', changes.ok],
    ['changes that did not match the current revision (412)', changes.mismatch],
    ['changes that were refused', changes.refused],
    ['changes with an unknown result', changes.unknown],
    ['contradictions in the history of changes', result.problems.length],
    [
      'ms from the end of the last fault until all nodes served the newest revision',
      renderNumber(convergedMs, 0),
    ],
  ]
  return [
    `With faults at random (${counted.join(', ')}): ${verdict(isRight && convergedMs <= MAX_CONVERGED_MS)}`,
    '',
    '| | |',
    '| --- | ---: |',
    ...rows.map((cells) => `| ${cells.join(' | ')} |`),
    ...(result.problems.length > 0 ? ['', ...result.problems.map((problem) => `- ${problem}`)] : []),
  ].join('\n')
}

function renderAway({
  nodes,
  awayMs,
  requests,
  failed,
  wrongBodies,
  saying,
  restarted,
  followedMs,
}: AwayMeasurement) {
  const isRight = failed === 0 && wrongBodies === 0 && saying === nodes + 1 && restarted.from === 'copy'
  const cells = [
    ...[
      renderNumber(awayMs / 1_000, 0),
      renderNumber(requests, 0),
      failed,
      wrongBodies,
      `${saying} of ${nodes + 1}`,
    ],
    ...[
      `revision ${restarted.revision} from its ${restarted.from}`,
      renderNumber(followedMs, 0),
      verdict(isRight),
    ],
  ]
  return [
    'While the store is away, and a node is started:',
    '',
    '| s | requests | failed | wrong bodies | nodes that are ready and say so | the started node serves | ms from its return until all served a change | |',
    '| ---: | ---: | ---: | ---: | ---: | --- | ---: | --- |',
    `| ${cells.join(' | ')} |`,
  ].join('\n')
}
