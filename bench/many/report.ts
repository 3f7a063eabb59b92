import { renderMib, renderNumber } from '../origin.ts'
import { type Ratio, renderRatio, summarize, verdict, verdictOn } from '../report.ts'
import { median, percentile } from '../statistics.ts'
import type { FirstCalls, ManyMeasurements, Put, Start } from './many.ts'
import { ALL, FIRST, ONE, type ZipfRun } from './zipf.ts'

const [MAX_LISTENING_MS, MAX_MIB, MAX_SMALL_MS, MAX_LARGE_MS] = [3_000, 450, 10, 150]
const [MAX_BESIDE_MS, MIN_RATE, MAX_PUT_MS, MAX_CHECK_MS] = [50, 0.3, 20, 10_000]

export function renderMany(measured: ManyMeasurements): string {
  const { small, large, firstSmall, firstLarge, besideBeforeMs, zipf } = measured
  const row = (what: string, figure: string, limit = '', judged = '') =>
    `| ${[what, figure, limit, judged].join(' | ')} |`
  const atMost = (what: string, value: number, most: number, unit: string, digits = 1) =>
    row(
      what,
      `${renderNumber(value, digits)} ${unit}`,
      `at most ${renderNumber(most, 0)} ${unit}`,
      verdict(value <= most),
    )
  const ofStarts = (key: keyof Start) => median(measured.starts.map((start) => start[key]))
  const puts = (kind: string, all: readonly Put[]) => [
    atMost(
      `event loop held by a \`PUT\` of a ${kind} one, median`,
      median(all.map(({ heldMs }) => heldMs)),
      MAX_PUT_MS,
      'ms',
    ),
    row(
      'longest answer of the routes during it, median',
      `${renderNumber(median(all.map(({ longestMs }) => longestMs)), 1)} ms`,
    ),
  ]
  const beside = (what: string, ms: number) => {
    const ratio = ms / besideBeforeMs
    const figure = `${renderNumber(ms, 1)} ms, ${renderNumber(ratio, 2)} times`
    return row(what, figure, `at most ${MAX_BESIDE_MS} ms`, verdict(ms <= MAX_BESIDE_MS))
  }
  const turns = (kind: string, { turns }: FirstCalls) =>
    turns
      ? [
          row(
            `longest turn of the event loop beside first calls of ${kind} ones; without its waits for a core; its CPU`,
            [turns.turnMs, turns.heldMs, turns.cpuMs].map((ms) => `${renderNumber(ms, 1)} ms`).join('; '),
          ),
        ]
      : []
  return [
    `${renderNumber(small, 0)} plug-ins of 9 KiB and ${renderNumber(large, 0)} of 2 MiB:`,
    '',
    '| measured | figure | limit | |',
    '| --- | ---: | ---: | --- |',
    atMost('until it listens, median', ofStarts('ms'), MAX_LISTENING_MS, 'ms', 0),
    atMost('resident memory then, median', ofStarts('memoryBytes') / 1_048_576, MAX_MIB, 'MiB'),
    atMost('first call of a small one, median', median(firstSmall.times), MAX_SMALL_MS, 'ms'),
    row('p99', `${renderNumber(percentile(firstSmall.times, 99), 1)} ms`),
    atMost('first call of a large one, median', median(firstLarge.times), MAX_LARGE_MS, 'ms'),
    row('p99 of routes that were called before', `${renderNumber(besideBeforeMs, 1)} ms`),
    beside('the same beside first calls of small ones', firstSmall.besideP99Ms),
    beside('the same beside first calls of large ones', firstLarge.besideP99Ms),
    ...turns('small', firstSmall),
    ...turns('large', firstLarge),
    ...puts('small', measured.smallPuts),
    ...puts('large', measured.largePuts),
    atMost('`wasm-serve check` of all', measured.checkMs, MAX_CHECK_MS, 'ms', 0),
    '',
    ...renderZipf(zipf),
  ].join('\n')
}

function renderZipf(runs: readonly ZipfRun[]): string[] {
  const of = (server: string) => runs.filter((run) => run.server === server)
  const figure = (server: string, key: 'requestsPerSecond' | 'cpuMicrosPerRequest') =>
    median(of(server).map((run) => run[key]))
  const ratio = (server: string, key: 'requestsPerSecond' | 'cpuMicrosPerRequest'): Ratio =>
    summarize(of(server).map((run, i) => run[key] / (of(ONE)[i]?.[key] ?? Number.NaN)))
  const rows = [ONE, FIRST, ...ALL].map((server) => {
    const rate = ratio(server, 'requestsPerSecond')
    const cells = [
      server,
      renderNumber(figure(server, 'requestsPerSecond'), 0),
      renderRatio(rate),
      renderNumber(figure(server, 'cpuMicrosPerRequest'), 1),
      renderRatio(ratio(server, 'cpuMicrosPerRequest')),
      renderMib(of(server).at(-1)?.memoryBytes ?? Number.NaN),
      server === FIRST ? verdictOn(rate, MIN_RATE, rate.median >= MIN_RATE) : '',
    ]
    return `| ${cells.join(' | ')} |`
  })
  return [
    `| Zipf load of | requests/s | relative | CPU µs/request | relative | memory MiB | requests/s at least ${MIN_RATE} |`,
    '| --- | ---: | ---: | ---: | ---: | ---: | --- |',
    ...rows,
  ]
}
