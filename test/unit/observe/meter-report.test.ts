import { beforeEach, expect, test } from 'vitest'
import type { Histogram } from '../../../src/observe/counters.ts'
import { type EngineStats, NO_STATS } from '../../../src/observe/engine-stats.ts'
import { type MeterReport, ReportedMeters, reportMeters } from '../../../src/observe/meter-report.ts'
import { Meters, meterLabels } from '../../../src/observe/metrics.ts'

const LABELS = meterLabels('/', 'echo.wasm', 'a'.repeat(64))

let total: Meters

beforeEach(() => {
  total = new Meters()
})

/** Meters of a process, and their reports to the total. */
function openProcess() {
  const own = new Meters()
  const reported = new ReportedMeters(total)
  const report = (more: readonly MeterReport[] = reportMeters(own)) => reported.add(structuredClone(more))
  return { own, reported, report }
}

function stats(more: Partial<EngineStats>): { stats: EngineStats } {
  return { stats: { ...NO_STATS, ...more } }
}

const all = () =>
  total.all.map(({ outcomes, guestMs, stats, isOpen }) => ({
    outcomes: Object.fromEntries(outcomes.counted),
    guestMs: guestMs.sum,
    timeouts: stats.timeouts,
    instances: stats.instances,
    isOpen,
  }))

test('the counts of processes are added, each once', () => {
  const [one, two] = [openProcess(), openProcess()]
  for (const { own } of [one, two]) own.of(LABELS).opened(stats({ instances: 2, timeouts: 1 }))
  one.own.of(LABELS).count({ guestMs: 2, queueMs: 1 }, 'ok')
  two.own.of(LABELS).count({ guestMs: 3, queueMs: 1 }, 'trap')
  for (const { report } of [one, two, one, one, two]) report()
  expect(all()).toEqual([
    { outcomes: { ok: 1, trap: 1 }, guestMs: 5, timeouts: 2, instances: 4, isOpen: true },
  ])
  expect(total.find(LABELS)?.totals).toEqual({ calls: 2, failures: 1, guestMs: 5 })
})

test('streams are counted in reports, with their times', () => {
  const { own, report } = openProcess()
  own.of(LABELS).countStream({ received: 10, sent: 20, firstByteMs: 3, isBroken: true }, 7)
  own.of(LABELS).countStream({ received: 1, sent: 0, firstByteMs: undefined, isBroken: false }, 5)
  report()
  report()
  const { counts, firstByteMs, durationMs } = total.find(LABELS)?.streams ?? own.noMetrics.streams
  expect(Object.fromEntries(counts.entries)).toEqual({ exchanges: 2, received: 11, sent: 20, broken: 1 })
  expect([firstByteMs.sum, durationMs.sum]).toEqual([3, 12])
  const sumOf = (histogram: Histogram) => histogram.counts.reduce((sum, count) => sum + count, 0)
  expect([sumOf(firstByteMs), sumOf(durationMs)]).toEqual([1, 2])
})

test('the counts of a process that has ended stay, and its instances do not', () => {
  const { own, reported, report } = openProcess()
  own.of(LABELS).opened(stats({ instances: 2, timeouts: 1 }))
  own.of(LABELS).count({ guestMs: 2, queueMs: 1 }, 'ok')
  report()
  reported.end()
  expect(all()).toEqual([{ outcomes: { ok: 1 }, guestMs: 2, timeouts: 1, instances: 0, isOpen: false }])
  const next = openProcess()
  next.own.of(LABELS).opened(stats({ instances: 1 }))
  next.own.of(LABELS).count({ guestMs: 2, queueMs: 1 }, 'ok')
  next.report()
  expect(all()).toEqual([{ outcomes: { ok: 2 }, guestMs: 4, timeouts: 1, instances: 1, isOpen: true }])
})

test('the WebSockets of a process that has ended are lost, each once', () => {
  const { own, reported, report } = openProcess()
  own.of(LABELS).countSockets('opened', 3)
  own.of(LABELS).countClosed(1000)
  report()
  reported.end()
  reported.end()
  const { sockets } = total.find(LABELS) ?? own.noMetrics
  expect(Object.fromEntries(sockets.counted)).toEqual({
    ...{ opened: 3, closed: 3 },
    ...{ 'close 1000': 1, 'close 1006': 2 },
  })
})

test('a version whose engine closes and opens again counts its timeouts once', () => {
  const { own, report } = openProcess()
  const [first, second] = [stats({ instances: 1, timeouts: 3 }), stats({ instances: 1, timeouts: 1 })]
  own.of(LABELS).opened(first)
  report()
  own.of(LABELS).closed(first)
  report()
  expect(all()).toMatchObject([{ timeouts: 3, instances: 0, isOpen: false }])
  own.of(LABELS).opened(second)
  report()
  expect(all()).toMatchObject([{ timeouts: 4, instances: 1, isOpen: true }])
})

test('counts that lose their labels in a process are not counted under both', () => {
  const { own, report } = openProcess()
  own.of(LABELS).opened(stats({ instances: 1, timeouts: 1 }))
  own.of(LABELS).count({ guestMs: 2, queueMs: 1 }, 'ok')
  report()
  const other = { route: 'other', plugin: 'other', digest: 'other' }
  report(reportMeters(own).map((each) => ({ ...each, labels: other })))
  const sum = total.all.reduce((calls, { outcomes }) => calls + outcomes.of('ok'), 0)
  expect(sum).toBe(1)
  expect(total.all.reduce((timeouts, meter) => timeouts + meter.stats.timeouts, 0)).toBe(1)
})
