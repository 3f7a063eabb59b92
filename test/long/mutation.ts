import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { apply, type Mutant, mutantsOf } from './mutants.ts'
import { keepSection, renderOrigin } from './page.ts'
import { Reached } from './reached.ts'
import { findImporters, relatedTests } from './related-tests.ts'
import { CompiledTree, MutantTree, type Tested } from './tree.ts'

/*
 * npx tsx test/long/mutation.ts [--seed N] [--count C] [--minutes M] [--again] [--only PATH]
 *
 * Draws mutants of all sources by the seed, and finds out which of them no test notices. Writes the results to
 * docs/contribute/long-tests.md, unless `--only` is given: then the paths of the sources contain it. Exits with 1 if a score is
 * below its floor, or if the time is over before all are tried.
 *
 * Results are kept, so that a run goes on where another one has ended. The draw of a mutant depends on its own file only: if
 * another file changes, the result stays. Survivors are tried again with `--again`.
 */

const SEED = 20_250_101
const COUNT = 1_500

/** Percent of the mutants that tests have to notice: of rooms that check something, and of the others. */
const FLOORS = { checks: 85, others: 75 }
const CHECKS = /^src\/(plugin\/trust|guest\/outbound|admin\/access|module\/limits|options)\b/

/** How many mutants are tried at the same time. */
const TREES = 2

const KEPT = new URL('mutation-results.json', import.meta.url)

/** Why nobody notices a mutant, by its file and its line; `without LINE` if it leaves the line out. */
const EXPLAINED: Readonly<Record<string, string>> = JSON.parse(
  readFileSync(new URL('mutation-explained.json', import.meta.url), 'utf8'),
)

interface Outcome {
  readonly outcome: Tested['name'] | 'refused'
  /** Whether a test reaches it. */
  readonly isReached: boolean
}

interface Result extends Outcome {
  readonly mutant: Mutant
}

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(SEED) },
    count: { type: 'string', default: String(COUNT) },
    minutes: { type: 'string', default: 'Infinity' },
    again: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
  },
})
const seed = Number(values.seed)
const end = performance.now() + Number(values.minutes) * 60_000

const root = fileURLToPath(new URL('../..', import.meta.url))
const files = ['src', 'scripts', 'test'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith('.ts')),
)
const importers = findImporters(root, files)
const all = files
  .filter((file) => file.startsWith('src/') && file.includes(values.only))
  .flatMap((file) => drawFrom(file, readFileSync(join(root, file), 'utf8')))
const drawn = new Map(all.sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, Number(values.count)))
const kept = readKept()
const left = [...drawn]
  .filter(([key]) => !kept.has(key))
  .map(([, mutant], place) => [place + 1, mutant] as const)
console.log(
  `seed ${seed}, Node ${process.version}, ${drawn.size} of ${all.length} mutants, ${drawn.size - left.length} known`,
)

const copies: { close(): void }[] = []
const closeCopies = () => {
  for (const copy of copies.splice(0)) copy.close()
}
process.once('exit', closeCopies)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

/** Which tests reach the mutants that are left. */
let reached: Reached
const broken = left.length > 0 && performance.now() < end ? await tryAll() : []

const results: readonly Result[] = [...drawn].flatMap(([key, mutant]) => {
  const outcome = kept.get(key)
  return outcome ? [{ mutant, ...outcome }] : []
})
const section = renderResults()
console.log(section)
if (values.only === '') keepSection('mutation', section)
const isBelow = (some: readonly Result[], floor: number) => scoreOf(some) < floor
const [checks, others] = [results.filter(isCheck), results.filter((result) => !isCheck(result))]
if (isBelow(checks, FLOORS.checks) || isBelow(others, FLOORS.others)) process.exitCode = 1
if (results.length < drawn.size) process.exitCode = 1

/** @returns test files that fail without a mutant. */
async function tryAll(): Promise<readonly string[]> {
  const first = await MutantTree.of(root, new Map(left))
  const trees = [first, ...Array.from({ length: TREES - 1 }, () => first.again())]
  copies.push(...trees)
  reached = new Reached(await Promise.all(trees.map((tree, at) => tree.findTests(`${at + 1}/${TREES}`))))
  const failing = [...first.broken].join(', ') || 'none'
  console.log(`${reached.size} mutants are reached; fail without any: ${failing}`)
  await Promise.all(trees.map(tryMutants))
  closeCopies()
  return [...first.broken]
}

/** The mutants of a file, by keys whose order is the draw. */
function drawFrom(file: string, source: string): [key: string, mutant: Mutant][] {
  return mutantsOf(file, source).map((mutant) => {
    const whole = JSON.stringify([seed, file, source, mutant.start, mutant.end, mutant.code])
    return [createHash('sha256').update(whole).digest('hex').slice(0, 16), mutant]
  })
}

/** Results of earlier runs, by key. */
function readKept(): Map<string, Outcome> {
  const given: Record<string, Outcome> = existsSync(KEPT) ? JSON.parse(readFileSync(KEPT, 'utf8')) : {}
  const isKnown = ({ outcome }: Outcome) => !values.again || outcome !== 'survived'
  return new Map(Object.entries(given).filter(([, outcome]) => isKnown(outcome)))
}

/** Writes the results that a later run can use. */
function keep(): void {
  const current = new Set(all.map(([key]) => key))
  const entries = [...kept].filter(([key]) => values.only !== '' || current.has(key))
  const lines = entries
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([key, { outcome, isReached }]) => `  "${key}": { "outcome": "${outcome}", "isReached": ${isReached} }`,
    )
  writeFileSync(KEPT, `{\n${lines.join(',\n')}\n}\n`)
}

/** Tries one mutant after another, until all are tried. */
async function tryMutants(tree: MutantTree): Promise<void> {
  const compiled = new CompiledTree(root)
  copies.push(compiled)
  for (let next = left.shift(); next && performance.now() < end; next = left.shift()) {
    const [number, mutant] = next
    const tests = reached.testsOf(number, relatedTests(importers, mutant.file))
    const tested = await tree.try(number, tests)
    const isRefused = tested.name === 'survived' && !(await compiled.accepts(mutant))
    const outcome = isRefused ? 'refused' : tested.name
    const [key = ''] = [...drawn].find(([, each]) => each === mutant) ?? []
    kept.set(key, { outcome, isReached: tests.length > 0 })
    keep()
    const by = tested.name === 'survived' ? '' : ` by ${tested.by}`
    console.log(`${kept.size}: ${outcome}${by}: ${renderDiff(mutant)}\n`)
  }
}

function isCheck({ mutant }: Result): boolean {
  return CHECKS.test(mutant.file)
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
  const survivors = results.filter(({ outcome }) => outcome === 'survived').map(({ mutant }) => mutant)
  const [explained, others] = [survivors.filter(reasonOf), survivors.filter((mutant) => !reasonOf(mutant))]
  return [
    `${renderOrigin()}. Seed ${seed}: ${results.length} of ${drawn.size} drawn of ${all.length} mutants. The score must be ${FLOORS.checks} % where something is checked, and ${FLOORS.others} % elsewhere.`,
    [
      '| sources | killed | timed out | survived | of these reached by a test | refused by the compiler | score |',
      '| --- | --: | --: | --: | --: | --: | --: |',
      ...folders.map((name) =>
        renderRow(
          `\`${name}\``,
          results.filter((result) => folderOf(result) === name),
        ),
      ),
      renderRow('what checks', results.filter(isCheck)),
      renderRow('all', results),
    ].join('\n'),
    `Explained survivors: ${explained.length}. No test can detect them, or only tests that are not part of this run.`,
    explained
      .map((mutant) => `- ${placeOf(mutant)}: ${reasonOf(mutant)}`)
      .sort()
      .join('\n'),
    `Other survivors: ${others.length}.`,
    ...others.map((mutant) => `\`\`\`diff\n${renderDiff(mutant)}\n\`\`\``).sort(),
    ...(broken.length === 0 ? [] : [`Left out, because they fail without a mutant: ${broken.join(', ')}.`]),
  ].join('\n\n')
}

function renderRow(name: string, some: readonly Result[]): string {
  const count = (wanted: Result['outcome']) => some.filter(({ outcome }) => outcome === wanted).length
  const reached = some.filter(({ outcome, isReached }) => outcome === 'survived' && isReached).length
  const counts = [count('killed'), count('timed out'), count('survived'), reached, count('refused')]
  return `| ${[name, ...counts, `${scoreOf(some).toFixed(0)} %`].join(' | ')} |`
}

function placeOf({ file, line }: Mutant): string {
  return `\`${file}:${line}\``
}

function reasonOf(mutant: Mutant): string | undefined {
  const { before, after } = linesOf(mutant)
  const [mutated = ''] = after
  return EXPLAINED[`${mutant.file}: ${mutated === ';' ? `without ${before.join(' ')}` : mutated}`]
}

function renderDiff(mutant: Mutant): string {
  const { before, after } = linesOf(mutant)
  const lines = (sign: string, texts: readonly string[]) => texts.map((text) => `${sign} ${text}`)
  return [`${mutant.file}:${mutant.line}`, ...lines('-', before), ...lines('+', after)].join('\n')
}

/** The lines that the mutant changes, without indentation. */
function linesOf(mutant: Mutant): { readonly before: readonly string[]; readonly after: readonly string[] } {
  const source = readFileSync(join(root, mutant.file), 'utf8')
  const from = source.lastIndexOf('\n', mutant.start) + 1
  const to = source.indexOf('\n', mutant.end)
  const mutated = apply(source, mutant).slice(from, to + mutant.code.length - (mutant.end - mutant.start))
  const lines = (text: string) => text.split('\n').map((line) => line.trim())
  return { before: lines(source.slice(from, to)), after: lines(mutated) }
}
