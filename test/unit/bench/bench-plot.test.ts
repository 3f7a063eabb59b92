import { expect, test } from 'vitest'
import { renderBarChart, renderLineChart } from '../../../bench/plot.ts'
import { linearScale, logScale } from '../../../bench/scale.ts'

test('a linear scale begins with 0 and ends with a round number', () => {
  const { at, ticks } = linearScale([3, 7, 42])
  expect(ticks).toEqual([0, 10, 20, 30, 40, 50])
  expect([at(0), at(25), at(50)]).toEqual([0, 0.5, 1])
})

test('a logarithmic scale goes from power to power', () => {
  expect(logScale([3, 900], 10).ticks).toEqual([1, 10, 100, 1_000])
  expect(logScale([1, 10_000], 10).at(100)).toBeCloseTo(0.5)
  expect(logScale([0.3, 3], 2).ticks).toEqual([0.25, 0.5, 1, 2, 4])
})

test('a chart of one value has a scale', () => {
  expect(linearScale([0]).at(0)).toBe(0)
  expect(logScale([8], 2).ticks).toEqual([8, 16])
})

test('the names of lines that end at one place are a line of text apart', () => {
  const lines = ['one', 'two', 'three'].map((name) => ({ name, points: [[1, 5] as const, [9, 5] as const] }))
  const svg = renderLineChart({ title: 'Memory', x: { label: 'calls' }, y: { label: 'MiB' }, lines })
  const places = ['one', 'two', 'three'].map((name) =>
    Number(new RegExp(`y="([\\d.]+)"[^>]*>${name}<`).exec(svg)?.[1]),
  )
  expect(places.map((place) => place - (places[0] ?? 0))).toEqual([0, 15, 30])
})

test('what is written in a chart is no markup', () => {
  const svg = renderBarChart({
    title: 'a < b & "c"',
    axis: { label: 'µs' },
    bars: [{ name: '<script>', value: 1 }],
  })
  expect(svg).toContain('a &#60; b &#38; &#34;c&#34;')
  expect(svg).not.toContain('<script')
})
