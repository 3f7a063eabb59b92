import { assembleGuest } from './guest.ts'
import { renderNumber } from './origin.ts'
import { measurePair } from './pairs.ts'
import { renderRange, summarize, verdictOn } from './report.ts'
import { kernel, loadPlugin, SETTINGS } from './shipped.ts'
import { median } from './statistics.ts'

/** Calls of one export with one input, of guests that check whether they are interrupted and of those that do not. */
export interface InterruptsMeasurement {
  readonly name: string
  /** How many times the CPU time without checks one with checks may take; undefined: the worst that code can be. */
  readonly limit: number | undefined
  /** CPU microseconds per call. */
  readonly rounds: readonly { readonly without: number; readonly checked: number }[]
}

type Instance = import('../src/runtime/runtime.ts').Instance

/** The limit of a real guest. */
const LIMIT = 1.15

const TEXT =
  '# Hello *world*, this is a [link](https://example.com/) and `code` of some length\n\n- one\n- two\n\n'

/**
 * Measures calls in this process, without HTTP, with and without checks in turns.
 *
 * @param names - Of cases. Default: all.
 * @throws Error if the outputs differ.
 */
export async function measureInterrupts(
  rounds: number,
  progress: (line: string) => void,
  names?: readonly string[],
): Promise<InterruptsMeasurement[]> {
  const [work, tight] = [await assembleGuest('work'), await assembleGuest('tight')]
  const cases = [
    ['hello, 8 B', 'plugins/hello/hello.wasm', 'hello', 8, LIMIT],
    ['hello-tinygo, 8 B', 'plugins/hello-tinygo/hello.wasm', 'hello', 8, LIMIT],
    ['hello-assemblyscript, 8 B', 'plugins/hello-assemblyscript/hello.wasm', 'hello', 8, LIMIT],
    [
      'count-vowels-rust, 64 KiB',
      'plugins/count-vowels-rust/count-vowels.wasm',
      'count_vowels',
      65_536,
      LIMIT,
    ],
    [
      'count-vowels-tinygo, 64 KiB',
      'plugins/count-vowels-tinygo/count-vowels.wasm',
      'count_vowels',
      65_536,
      LIMIT,
    ],
    ['markdown-rust, 4 KiB', 'plugins/markdown-rust/markdown.wasm', 'markdown', 4_096, LIMIT],
    ['markdown-rust, 256 KiB', 'plugins/markdown-rust/markdown.wasm', 'markdown', 262_144, LIMIT],
    ['a hash of 1 MiB', work, 'hash', 0, LIMIT],
    ['a blur of 512 x 512 pixels', work, 'blur', 0, LIMIT],
    ['a sum of bytes', tight, 'sum', 0, undefined],
    ['xorshift', tight, 'xorshift', 0, undefined],
    ['Fibonacci numbers, by recursion', tight, 'fib', 0, undefined],
  ] as const
  const measured: InterruptsMeasurement[] = []
  for (const [name, source, exportName, size, limit] of cases) {
    if (names && !names.includes(name)) continue
    const input = Buffer.from(TEXT.repeat(Math.ceil(size / TEXT.length)).slice(0, size))
    const pair = await openBoth(source)
    const all = await measurePair(pair, { exportName, input, rounds, warmUpRounds: 20, roundMicros: 20_000 })
    measured.push({ name, limit, rounds: all.map(([without, checked]) => ({ without, checked })) })
    progress(`${name}: ${renderNumber(median(all.map(([without, checked]) => checked / without)), 2)}`)
  }
  return measured
}

/** Without and with checks. */
async function openBoth(source: string | Uint8Array): Promise<[Instance, Instance]> {
  const [without, checked] = [await loadPlugin(source, { interrupts: 'off' }), await loadPlugin(source)]
  if (!checked.isInterruptible) throw new Error('it cannot be interrupted')
  return [kernel.open(without, SETTINGS), kernel.open(checked, SETTINGS)]
}

export function renderInterrupts(measured: readonly InterruptsMeasurement[]): string {
  const rows = measured.map(({ name, limit, rounds }) => {
    const ratio = summarize(rounds.map((round) => round.checked / round.without))
    const cells = [
      name,
      renderNumber(ratio.median, 2),
      renderRange(ratio),
      limit ?? '',
      limit === undefined ? '' : verdictOn(ratio, limit, ratio.median <= limit),
      renderNumber(median(rounds.map((round) => round.without)), 2),
      renderNumber(median(rounds.map((round) => round.checked)), 2),
    ]
    return `| ${cells.join(' | ')} |`
  })
  return [
    '| call | with checks to without | 95 % interval | limit | | CPU µs without | CPU µs with |',
    '| --- | ---: | ---: | ---: | --- | ---: | ---: |',
    ...rows,
  ].join('\n')
}
