import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { apply, type Mutant, mutantsOf } from './mutants.ts'
import { keepSection, renderOrigin } from './page.ts'
import { findImporters, relatedTests } from './related-tests.ts'
import { broken, type Outcome, Tree } from './tree.ts'

/*
 * npm run test:long -- [--seed N] [--minutes M] [--count C] [--only PATH]
 *
 * Draws mutants of the sources by the seed, and finds out which of them no test notices. Writes the results to
 * docs/operate/long-tests.md, unless `--only` is given: then the paths of the sources contain it. Exits with 1 if the score is
 * below the floor.
 */

const SEED = 20_250_101
const MAX_MINUTES = 30

/** Percent of the mutants that tests have to notice. A run tries some dozens, so that its score is a rough one. */
const FLOOR = 60

/** How many mutants are tried at the same time. */
const TREES = 2

const SOURCES = /^src\/(engine|runtime|guest\/outbound|contract|module)\/.*\.ts$/

interface Result {
  readonly mutant: Mutant
  readonly outcome: Outcome['name']
}

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(SEED) },
    minutes: { type: 'string', default: '25' },
    count: { type: 'string', default: 'Infinity' },
    only: { type: 'string', default: '' },
  },
})
const seed = Number(values.seed)
const minutes = Math.min(Number(values.minutes), MAX_MINUTES)

const root = fileURLToPath(new URL('../..', import.meta.url))
const files = ['src', 'test'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith('.ts')),
)
const importers = findImporters(root, files)
const all = files
  .filter((file) => SOURCES.test(file) && file.includes(values.only))
  .sort()
  .flatMap((file) => mutantsOf(file, readFileSync(join(root, file), 'utf8')))
const shuffled = fc.sample(fc.shuffledSubarray(all, { minLength: all.length }), { seed, numRuns: 1 })[0] ?? []
const drawn = shuffled.slice(0, Number(values.count))
console.log(
  `seed ${seed}, Node ${process.version}, ${minutes} minutes, ${drawn.length} of ${all.length} mutants`,
)

const deadline = Date.now() + minutes * 60_000
const results: Result[] = []
const trees = Array.from({ length: TREES }, () => new Tree(root, deadline))
process.once('exit', () => {
  for (const tree of trees) tree.close()
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
await Promise.all(trees.map(tryMutants))

const section = renderResults()
console.log(section)
if (values.only === '') keepSection('mutation', section)
if (scoreOf(results) < FLOOR) process.exitCode = 1

/** Tries one mutant after another, until all are tried or the time is over. */
async function tryMutants(tree: Tree): Promise<void> {
  if (!(await tree.passes('test/unit/engine/inline.test.ts')))
    throw new Error('in a copy of the tree, tests fail')
  for (let mutant = drawn.shift(); mutant; mutant = drawn.shift()) {
    const { name, by } = await tree.try(mutant, relatedTests(importers, mutant.file))
    if (Date.now() >= deadline) return // it was killed while it ran
    results.push({ mutant, outcome: name })
    console.log(`${name}${by === undefined ? '' : ` by ${by}`}: ${renderDiff(mutant)}\n`)
  }
}

/** Percent of the mutants that tests noticed; 100 if there were none. */
function scoreOf(some: readonly Result[]): number {
  const counted = some.filter(({ outcome }) => outcome !== 'refused')
  const survivors = counted.filter(({ outcome }) => outcome === 'survived')
  return counted.length === 0 ? 100 : (100 * (counted.length - survivors.length)) / counted.length
}

function renderResults(): string {
  const folderOf = ({ mutant }: Result) => mutant.file.split('/').slice(0, 2).join('/')
  const folders = [...new Set(results.map(folderOf))].sort()
  const survivors = results.filter(({ outcome }) => outcome === 'survived')
  return [
    `${renderOrigin()}. Seed ${seed}, ${minutes} minutes: ` +
      `${results.length} of ${all.length} mutants. The score must be ${FLOOR} % or more.`,
    [
      '| sources | killed | timed out | survived | refused by the compiler | score |',
      '| --- | --: | --: | --: | --: | --: |',
      ...folders.map((name) =>
        renderRow(
          `\`${name}\``,
          results.filter((result) => folderOf(result) === name),
        ),
      ),
      renderRow('all', results),
    ].join('\n'),
    survivors.length === 0 ? 'No mutant survived.' : 'The survivors:',
    ...survivors.map(({ mutant }) => `\`\`\`diff\n${renderDiff(mutant)}\n\`\`\``).sort(),
    ...(broken.size === 0
      ? []
      : [`Left out, because they fail without a mutant: ${[...broken].join(', ')}.`]),
  ].join('\n\n')
}

function renderRow(name: string, some: readonly Result[]): string {
  const count = (wanted: Outcome['name']) => some.filter(({ outcome }) => outcome === wanted).length
  const counts = [count('killed'), count('timed out'), count('survived'), count('refused')]
  return `| ${[name, ...counts, `${scoreOf(some).toFixed(0)} %`].join(' | ')} |`
}

/** The lines that the mutant changes, before and after. */
function renderDiff(mutant: Mutant): string {
  const source = readFileSync(join(root, mutant.file), 'utf8')
  const from = source.lastIndexOf('\n', mutant.start) + 1
  const to = source.indexOf('\n', mutant.end)
  const mutated = apply(source, mutant).slice(from, to + mutant.code.length - (mutant.end - mutant.start))
  const lines = (sign: string, text: string) => text.split('\n').map((line) => `${sign} ${line.trim()}`)
  return [
    `${mutant.file}:${mutant.line}`,
    ...lines('-', source.slice(from, to)),
    ...lines('+', mutated),
  ].join('\n')
}
