import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { findTool } from '../../../bench/load/tools.ts'
import { type Measurement, medians } from '../../../bench/measure.ts'
import { processTimes, treeCpuMicros, treeMemoryBytes } from '../../../bench/processes.ts'
import { renderTable } from '../../../bench/report.ts'
import type { Run } from '../../../bench/run.ts'
import { noPlugin } from '../../../bench/scenario.ts'

const ECHO = noPlugin('Bob')

const RUN: Run = {
  requestsPerSecond: 1_000,
  p50Ms: 1,
  p99Ms: 2,
  p999Ms: 3,
  cpuMicrosPerRequest: 20,
  memoryBytes: 64 * 1_048_576,
  answered: 5_000,
  failed: 0,
  generatorLoad: 0.5,
}

function measured(scenario: string, ...runs: (Partial<Run> & { number?: number })[]): Measurement {
  const numbered = runs.map((run, i) => ({ ...RUN, number: i + 1, ...run }))
  return { scenario, connections: 100, ...medians(numbered), runs: numbered, broken: [] }
}

function render(...measurements: Measurement[]): string {
  const scenarios = measurements.map(({ scenario }) => ({ ...ECHO, name: scenario }))
  return renderTable(measurements, { scenarios, compared: [] })
}

test('a ratio is the median of those of runs that were made one after the other', () => {
  const table = render(
    measured('echo', { cpuMicrosPerRequest: 10 }, { cpuMicrosPerRequest: 100 }, { cpuMicrosPerRequest: 20 }),
    // The second run broke off.
    measured('ours', { cpuMicrosPerRequest: 30 }, { cpuMicrosPerRequest: 40, number: 3 }),
  )
  expect(table).toContain('| ours | 100 | 2.50 | 2.00 to 3.00 |')
})

test('wrong answers of a server that is not ours are counted and shown', () => {
  expect(render(measured('echo', {}))).not.toContain('wrong')
  expect(render(measured('echo', { failed: 2 }, { failed: 1 }))).toContain(
    '`echo`: **3 answers were wrong, failed or lost**, of 10000',
  )
})

test('a server of which no run came to an end has no row, and a line that says so', () => {
  const table = render(measured('echo', {}), { ...measured('crash'), broken: ['it ended with SIGSEGV'] })
  expect(table).not.toContain('| crash |')
  expect(table).toContain('`crash`: **1 runs broke off**: it ended with SIGSEGV')
})

test('it is said where the load generator was the limit', () => {
  expect(render(measured('echo', {}))).not.toContain('load generator')
  expect(render(measured('echo', { generatorLoad: 0.97 }))).toContain(
    '**The load generator was the limit** of `echo` at 100 (97 % busy)',
  )
})

test('the name of a process may hold spaces and parentheses', () => {
  const stat = '42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 7 3 20 5 20 0 1 0 100 1000 10'
  expect(processTimes(stat)).toEqual({ own: 10, endedChildren: 25 })
})

test.skipIf(process.platform !== 'linux')(
  'CPU time and memory are those of all that a process started',
  async () => {
    const busy = 'while (process.cpuUsage().user < 150_000);console.log("done");setInterval(() => {}, 1000)'
    const child = spawn('sh', ['-c', '"$0" -e "$1"; true', process.execPath, busy], {
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    })
    child.stdout.on('error', () => undefined) // it is killed
    await once(child.stdout, 'data')
    try {
      expect(treeCpuMicros(child.pid)).toBeGreaterThan(50_000)
      expect(treeMemoryBytes(child.pid)).toBeGreaterThan(20 * 1_048_576)
    } finally {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    }
  },
)

test('a load generator that does not exist is refused', () => {
  expect(() => findTool('ab')).toThrow('autocannon, wrk, hey')
})
