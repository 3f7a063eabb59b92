import { expect, test } from 'vitest'
import { readCorpus } from '../../fuzz/corpus.ts'
import { findTargets } from '../../fuzz/find-targets.ts'
import { Fuzzer } from '../../fuzz/fuzzer.ts'
import { randomOf } from '../../support/random.ts'
import { runs } from '../../support/runs.ts'

/* The short form; `npm run test:long` runs the same targets for minutes of CPU (test/long/fuzz.ts). */

const MUTANTS = 25
const SEED = 1

const targets = await findTargets()

test.each(
  targets.map((target) => [target.name, target] as const),
)('%s keeps its promises, whatever the bytes', async (_, target) => {
  const fuzzer = new Fuzzer(target, randomOf(SEED))
  const { shortInputs = Number.POSITIVE_INFINITY } = target
  const inputs = [...target.seeds(), ...readCorpus(target.name).values()].slice(0, runs(shortInputs))
  for (const input of inputs) await fuzzer.try(input, true)
  for (let left = runs(Math.min(MUTANTS, shortInputs)); left > 0; left--) await fuzzer.try(fuzzer.next())
  expect(fuzzer.results.size).toBeGreaterThan(1) // a target that does nothing would not be noticed
})
