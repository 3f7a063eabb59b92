import { assembleGuest } from './guest.ts'
import { FUNCTIONS, largeModule, numbered } from './many/modules.ts'
import { renderNumber } from './origin.ts'
import { measurePair } from './pairs.ts'
import { judgeAtMost, renderRange, renderRatio, summarize, verdictOn } from './report.ts'
import { kernel, load, loadPlugin, SETTINGS } from './shipped.ts'
import { median } from './statistics.ts'

/** Calls of one export with one input, with the kernel linked to the guest and merged into it. */
export interface MergeMeasurement {
  readonly name: string
  /** How many times a linked call's CPU time a merged one may take. */
  readonly limit: number
  /** CPU microseconds per call. */
  readonly rounds: readonly { readonly linked: number; readonly merged: number }[]
}

/** What the bench leaves. */
export interface MergeResults {
  readonly measured: readonly MergeMeasurement[]
  readonly merging: readonly MergingTimes[]
}

const { readModule } = (await load('module/module.js')) as typeof import('../src/module/module.ts')
const { capMemory } = (await load('module/memory-cap.js')) as typeof import('../src/module/memory-cap.ts')
const { mergeKernel, planMerge } = (await load('module/merge.js')) as typeof import('../src/module/merge.ts')

type Instance = import('../src/runtime/runtime.ts').Instance

/**
 * Measures calls in this process, without HTTP, linked and merged in turns.
 *
 * @param names - Of cases. Default: all.
 * @throws Error if this Node.js has no multi-memory, or the outputs differ.
 */
export async function measureMerge(
  rounds: number,
  progress: (line: string) => void,
  names?: readonly string[],
): Promise<MergeMeasurement[]> {
  const copy = await assembleGuest('copy')
  const hello = 'plugins/hello/hello.wasm'
  const vowels = 'plugins/count-vowels-rust/count-vowels.wasm'
  const cases = [
    ['hello, 8 B', hello, 'hello', 8, 1.05],
    ['hello, 64 KiB', hello, 'hello', 65_536, 0.9],
    ['count-vowels, 64 KiB', vowels, 'count_vowels', 65_536, 1],
    ['copy, 8 B', copy, 'copy', 8, 1.05],
    ['copy, 64 KiB', copy, 'copy', 65_536, 0.35],
    ['copy, 1 MiB', copy, 'copy', 1_048_576, 0.5],
  ] as const
  const measured: MergeMeasurement[] = []
  for (const [name, plugin, exportName, size, limit] of cases) {
    if (names && !names.includes(name)) continue
    const input = Uint8Array.from({ length: size }, (_, i) => 97 + (i % 26))
    const pair = await openBoth(plugin)
    const all = await measurePair(pair, { exportName, input, rounds, warmUpRounds: 5, roundMicros: 50_000 })
    measured.push({ name, limit, rounds: all.map(([linked, merged]) => ({ linked, merged })) })
    progress(`${name}: ${renderNumber(median(all.map(([linked, merged]) => merged / linked)), 2)}`)
  }
  return measured
}

/** Linked and merged. */
async function openBoth(source: string | Uint8Array): Promise<[Instance, Instance]> {
  const [linked, merged] = [
    await loadPlugin(source, { runtime: 'sdk' }),
    await loadPlugin(source, { interrupts: 'off' }),
  ]
  const { merge } = merged
  if (!merge?.isMerged) throw new Error(`the kernel cannot be merged here: ${merge?.reason}`)
  return [kernel.open(linked, SETTINGS), kernel.open(merged, SETTINGS)]
}

/** Times of merging the kernel into modules of 2 MiB with other bytes each, in ms. */
export interface MergingTimes {
  /** How many of the 2,000 functions call what is replaced: they are read and written anew, and the others are copied. */
  readonly changed: number
  readonly limit: number
  /** The first is that of a process that has merged no such module before. */
  readonly times: readonly number[]
}

/** @throws Error if it is linked instead. */
export function measureMerging(rounds: number): MergingTimes[] {
  return [
    { changed: 20, limit: 50 },
    { changed: FUNCTIONS, limit: 100 },
  ].map(({ changed, limit }) => {
    const module = largeModule(changed)
    const times = Array.from({ length: rounds }, (_, round) => timeOfMerging(numbered(module, round)))
    return { changed, limit, times }
  })
}

const MAX_PAGES = 512

function timeOfMerging(module: Uint8Array): number {
  const capped = capMemory(readModule(module, {}, 'large'), MAX_PAGES)
  const start = performance.now()
  const plan = planMerge(capped)
  const merged = typeof plan === 'string' ? plan : mergeKernel(capped, plan)
  const ms = performance.now() - start
  if (typeof merged === 'string') throw new Error(`the kernel cannot be merged: ${merged}`)
  return ms
}

function renderMerging({ changed, limit, times: [first = Number.NaN, ...later] }: MergingTimes): string {
  const ms = summarize(later)
  const where = `Merging 2 MiB where ${changed} of ${FUNCTIONS} functions change`
  return `- ${where}: ${renderRatio(ms, 1)} ms, ${judgeAtMost(ms, limit)}; the first time ${renderNumber(first, 1)} ms.`
}

export function renderMerge({ measured, merging }: MergeResults): string {
  const rows = measured.map(({ name, limit, rounds }) => {
    const ratio = summarize(rounds.map((round) => round.merged / round.linked))
    const cells = [
      name,
      renderNumber(ratio.median, 2),
      renderRange(ratio),
      limit,
      verdictOn(ratio, limit, ratio.median <= limit),
      renderNumber(median(rounds.map((round) => round.linked)), 2),
      renderNumber(median(rounds.map((round) => round.merged)), 2),
    ]
    return `| ${cells.join(' | ')} |`
  })
  return [
    '| call | merged to linked | 95 % interval | limit | | linked CPU µs | merged CPU µs |',
    '| --- | ---: | ---: | ---: | --- | ---: | ---: |',
    ...rows,
    '',
    ...merging.map(renderMerging),
  ].join('\n')
}
