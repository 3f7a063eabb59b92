import { existsSync } from 'node:fs'
import { assembleGuest } from './guest.ts'
import { renderNumber } from './origin.ts'
import { measurePair, type Paired } from './pairs.ts'
import { judgeAtMost, renderRange, renderRatio, summarize } from './report.ts'
import { kernel, load, loadPlugin, SETTINGS } from './shipped.ts'
import { median } from './statistics.ts'

/** Calls of one export with one input, of an instance that is kept and of one that is new for each call. */
export interface FreshMeasurement {
  readonly name: string
  /** CPU microseconds per call. */
  readonly rounds: readonly { readonly reuse: number; readonly fresh: number }[]
}

export interface FreshResults {
  readonly measured: readonly FreshMeasurement[]
  /** CPU time of a fresh call that writes in 16 places of a memory of 8 MiB, to that with 512 KiB. */
  readonly sizes: readonly number[]
  /** The limit of that, if only what was written is restored. */
  readonly sizesLimit?: number
}

const { hasArrays } = (await load('module/writes.js')) as typeof import('../src/module/writes.ts')

type Plugin = Awaited<ReturnType<typeof loadPlugin>>

/** QuickJS, if it was built. */
const SCRIPT = 'plugins/hello-js/target/hello.wasm'

/**
 * Measures calls in this process, without HTTP, in turns.
 *
 * @throws Error if the outputs differ.
 */
export async function measureFresh(rounds: number, progress: (line: string) => void): Promise<FreshResults> {
  const cases = [
    ['hello, 8 B', 'plugins/hello/hello.wasm', 'hello', 8],
    ['hello-tinygo, 8 B', 'plugins/hello-tinygo/hello.wasm', 'hello', 8],
    ['hello-assemblyscript, 8 B', 'plugins/hello-assemblyscript/hello.wasm', 'hello', 8],
    ['markdown-rust, 4 KiB', 'plugins/markdown-rust/markdown.wasm', 'markdown', 4_096],
    ...(existsSync(SCRIPT) ? ([['hello-js, 8 B', SCRIPT, 'hello', 8]] as const) : []),
  ] as const
  const measured: FreshMeasurement[] = []
  for (const [name, source, exportName, size] of cases) {
    const [kept, renewed] = [await loadPlugin(source), await loadPlugin(source, { isolation: 'fresh' })]
    const input = Buffer.alloc(size, '# Hello *world*\n')
    const pair = [kernel.open(kept, SETTINGS), eachNew(renewed)] as const
    const all = await measurePair(pair, { exportName, input, rounds, ...EFFORT })
    measured.push({ name, rounds: all.map(([reuse, fresh]) => ({ reuse, fresh })) })
    progress(`${name}: ${renderNumber(median(all.map(([reuse, fresh]) => fresh / reuse)), 2)}`)
  }
  return { measured, sizes: await measureSizes(rounds), ...(hasArrays && { sizesLimit: SIZES_LIMIT }) }
}

const EFFORT = { warmUpRounds: 20, roundMicros: 20_000 }

/** @returns ratios: see {@link FreshResults.sizes}. */
export async function measureSizes(rounds: number): Promise<number[]> {
  const small = await assembleGuest('touch')
  const large = withPages(small, 128)
  const [first, second] = await Promise.all(
    [small, large].map(async (bytes) => eachNew(await loadPlugin(bytes, { isolation: 'fresh' }))),
  )
  if (!first || !second) throw new Error('there are two')
  const measured = await measurePair([first, second], {
    exportName: 'touch',
    input: Buffer.alloc(0),
    rounds,
    ...EFFORT,
  })
  return measured.map(([ofSmall, ofLarge]) => ofLarge / ofSmall)
}

/** The guest with another size of its memory: it has 8 pages. */
function withPages(bytes: Uint8Array, pages: number): Uint8Array {
  const section = Buffer.of(5, 3, 1, 0, 8)
  const at = Buffer.from(bytes).indexOf(section)
  if (at < 0) throw new Error('it has another memory')
  const size = [(pages & 0x7f) | 0x80, pages >> 7]
  return Buffer.concat([bytes.subarray(0, at), Buffer.of(5, 4, 1, 0, ...size), bytes.subarray(at + 5)])
}

/** Each call has a new instance. */
function eachNew(plugin: Plugin): Paired {
  let instance = kernel.open(plugin, SETTINGS)
  return {
    call(exportName, input, caller) {
      const output = instance.call(exportName, input, caller)
      void instance.close()
      instance = kernel.open(plugin, SETTINGS)
      return output
    },
    close: () => instance.close(),
  }
}

const SIZES_LIMIT = 2

export function renderFresh({ measured, sizes, sizesLimit }: FreshResults): string {
  const rows = measured.map(({ name, rounds }) => {
    const ratio = summarize(rounds.map((round) => round.fresh / round.reuse))
    const cells = [
      name,
      renderNumber(ratio.median, 2),
      renderRange(ratio),
      renderNumber(median(rounds.map((round) => round.reuse)), 2),
      renderNumber(median(rounds.map((round) => round.fresh)), 2),
    ]
    return `| ${cells.join(' | ')} |`
  })
  const ratio = summarize(sizes)
  return [
    [
      '| call | fresh to reuse | 95 % interval | reuse CPU µs | fresh CPU µs |',
      '| --- | ---: | ---: | ---: | ---: |',
      ...rows,
    ].join('\n'),
    `A fresh call that writes in 16 places, with a memory of 8 MiB to one of 512 KiB: ${renderRatio(ratio, 2)}${sizesLimit === undefined ? '' : `, ${judgeAtMost(ratio, sizesLimit)}`}.`,
  ].join('\n\n')
}
