import { parseArgs } from 'node:util'
import { call, largestOf, optimise } from './compile-measure.ts'
import { randomBy, randomShape, SHAPES } from './compile-shapes.ts'

/*
 * npx tsx scripts/compile-cost.ts [--node PATH]... [--only WORD] [--search COUNT [--seed N]]
 *
 * What V8 takes for the largest functions that the limits of src/module/limits.ts accept: seconds of CPU of the first call,
 * seconds of CPU and MiB of optimising, and the former for a module that has as many of the function as the limits accept.
 * `--search` tries random mixes of instructions instead, and prints those that take more than the limits promise.
 */

const { values } = parseArgs({
  options: {
    node: { type: 'string', multiple: true, default: [process.execPath] },
    only: { type: 'string', default: '' },
    search: { type: 'string' },
    seed: { type: 'string', default: '1' },
  },
})

/** More is reported by a search. */
const PROMISED = { mebibytes: 512, seconds: 10 }

const columns = (cells: readonly (string | number)[]) =>
  cells.map((cell) => String(cell).padStart(9)).join('')
const write = (line: string) => process.stdout.write(`${line}\n`)

if (values.search === undefined) {
  const titles = ['first, s', 's', 'MiB', 'module, s']
  write(`${''.padEnd(38)}${columns(['count', 'bytes', ...values.node.flatMap(() => titles)])}  limit`)
  for (const [name, shape] of Object.entries(SHAPES)) {
    if (!name.includes(values.only)) continue
    const { bytes, count, limit, functions } = largestOf(shape)
    const cells = values.node.flatMap((node) => {
      const first = call(bytes, node)
      const { seconds, mebibytes } = optimise(bytes, node)
      return [first.seconds, seconds, mebibytes, seconds * functions].map((number, place) =>
        number.toFixed(place === 2 ? 0 : 2),
      )
    })
    write(`${name.padEnd(38)}${columns([count, bytes.length, ...cells])}  ${limit}`)
  }
} else {
  const first = Number(values.seed)
  for (let seed = first; seed < first + Number(values.search); seed++) {
    const { name, shape } = randomShape(randomBy(seed))
    const { bytes, count, limit, functions } = largestOf(shape)
    for (const [place, node] of values.node.entries()) {
      const { seconds, mebibytes } = optimise(bytes, node)
      if (mebibytes <= PROMISED.mebibytes && seconds * functions <= PROMISED.seconds) continue
      const cells = [seconds.toFixed(2), mebibytes.toFixed(0), (seconds * functions).toFixed(1)]
      write(
        `seed ${seed}, node ${place + 1}: ${columns(cells)}  ${count} of ${name} (${bytes.length} bytes, ${limit})`,
      )
    }
  }
}
