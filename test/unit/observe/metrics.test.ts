import { expect, test } from 'vitest'
import { addStats, NO_STATS } from '../../../src/observe/engine-stats.ts'
import { Meters, meterLabels } from '../../../src/observe/metrics.ts'

const CALL = { queueMs: 0, guestMs: 1 }

/** Calls so many routes, each once. */
function called(routes: number) {
  const meters = new Meters()
  const all = Array.from({ length: routes }, (_, n) => meters.of(meterLabels(`/${n}`, 'a', 'd')))
  for (const meter of all) meter.count(CALL, 'ok')
  return { meters, all }
}

const countsOf = (meters: Meters) =>
  meters.all.map(({ labels, outcomes }) => [
    labels.route,
    outcomes.entries.reduce((sum, [, times]) => sum + times, 0),
  ])

test('a thousand routes have metrics of their own, and those called later are counted together', () => {
  const { meters } = called(1_003)
  const counts = countsOf(meters)
  expect(counts).toHaveLength(1_001)
  expect(counts[0]).toEqual(['/0', 1])
  expect(counts[999]).toEqual(['/999', 1])
  expect(counts[1_000]).toEqual(['other', 3])
  expect(meters.all.at(-1)?.isOpen).toBe(true)
})

test('of routes that are gone, a hundred keep their metrics, and the first of the others make room for new routes', () => {
  const { meters, all } = called(1_000)
  const engine = { stats: NO_STATS }
  for (const meter of all) {
    meter.opened(engine)
    meter.closed(engine)
  }
  const counts = countsOf(meters)
  expect(counts).toHaveLength(101)
  expect(counts[0]).toEqual(['/900', 1])
  expect(counts.at(-1)).toEqual(['other', 900])
  expect(meters.all.at(-1)?.isOpen).toBe(false)
  meters.of(meterLabels('/new', 'a', 'd')).count(CALL, 'ok')
  expect(countsOf(meters)).toContainEqual(['/new', 1])
})

test('WebSockets are counted by the codes that close them, and unknown codes together', () => {
  const meters = new Meters()
  const meter = meters.of(meterLabels('/', 'a', 'd'))
  const codes = [1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009, 1011, 1012, 1013]
  for (const code of [...codes, 1014, 4000]) meter.countClosed(code)
  expect(Object.fromEntries(meters.all[0]?.sockets.counted ?? [])).toEqual({
    closed: 14,
    ...Object.fromEntries(codes.map((code) => [`close ${code}`, 1])),
    'close other': 2,
  })
})

test('exchanges with streams that take half an hour, an hour and longer are told apart', () => {
  const meters = new Meters()
  const meter = meters.of(meterLabels('/', 'a', 'd'))
  const stream = { received: 0, sent: 0, firstByteMs: undefined, isBroken: false }
  for (const ms of [1_800_000, 3_600_000, 3_600_001]) meter.countStream(stream, ms)
  const { bounds = [], counts = [] } = meters.all[0]?.streams.durationMs ?? {}
  expect(bounds.slice(-2)).toEqual([1_800_000, 3_600_000])
  expect([...counts].slice(-3)).toEqual([1, 1, 1])
})

test('each figure of two engines is added', () => {
  const names = Object.keys(NO_STATS).filter((name) => typeof Reflect.get(NO_STATS, name) === 'number')
  expect(names.length).toBeGreaterThan(9)
  const stats = (factor: number) => ({
    ...NO_STATS,
    ...Object.fromEntries(names.map((name, place) => [name, factor * (place + 1)])),
  })
  expect(addStats(stats(1), stats(100))).toEqual(stats(101))
})

test('a version that was never served is forgotten when it is released, and another one is kept', () => {
  const meters = new Meters()
  const [never, served] = ['never', 'served'].map((route) => meterLabels(route, 'a', 'd'))
  if (!never || !served) throw new Error('there are two')
  meters.of(never).release()
  const engine = { stats: NO_STATS }
  meters.of(served).opened(engine)
  meters.of(served).release()
  expect([meters.find(never), meters.find(served)?.isOpen]).toEqual([undefined, true])
  for (let count = 0; count <= 100; count++) {
    const meter = meters.of(meterLabels(`/${count}`, 'a', 'd'))
    meter.opened(engine)
    meter.closed(engine)
  }
  expect(meters.find(served)?.isOpen).toBe(true)
})
