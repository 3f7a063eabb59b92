import { join, relative } from 'node:path'
import { createVitest, type Reporter } from 'vitest/node'

/*
 * Keeps Vitest in memory in a copy of the sources, which is the current folder, and runs the tests that `tree.ts` asks for.
 * Each run has a new process for its tests.
 */

/** Cases of a test file by their ids, or all of them. */
export interface Selection {
  readonly file: string
  readonly cases?: readonly string[]
}

type Failures = readonly { readonly message: string }[] | undefined

interface Failure {
  readonly file: string
  /** Undefined if a hook failed, or the file itself. */
  readonly case?: string
  /** Whether its time was over. */
  readonly isLate: boolean
}

export interface Report {
  /** In this order. */
  readonly failed: readonly Failure[]
  /** Whether an error was thrown outside of all tests. */
  readonly isDisturbed: boolean
  /** In milliseconds, by the file and by the id of the case. */
  readonly durations: Readonly<Record<string, Readonly<Record<string, number>>>>
}

/** What the runner is started with, as JSON: how the tests of one of its runs end. */
export interface RunnerOptions {
  readonly bail: number
  /** The part of all tests, if all are asked for. */
  readonly shard?: string
  readonly testTimeout: number
}

const SWITCH = join(import.meta.dirname, 'mutant-switch.ts')

let failed: Failure[] = []
let durations: Record<string, Record<string, number>> = {}
const isLate = (errors: Failures = []) => errors.some(({ message }) => message.includes('timed out'))
const pathOf = ({ moduleId }: { readonly moduleId: string }) => relative(process.cwd(), moduleId)
const reporter: Reporter = {
  onTestCaseResult(test) {
    const file = pathOf(test.module)
    durations[file] = { ...durations[file], [test.id]: test.diagnostic()?.duration ?? 0 }
    if (test.result().state === 'failed')
      failed.push({ file, case: test.id, isLate: isLate(test.result().errors) })
  },
  onTestModuleEnd(module) {
    const file = pathOf(module)
    if (module.state() === 'failed' && !failed.some((failure) => failure.file === file))
      failed.push({ file, isLate: isLate(module.errors()) })
  },
}

const options: RunnerOptions = JSON.parse(process.argv[2] ?? '')
const vitest = await createVitest('test', {
  ...options,
  config: 'test/long/mutant.config.ts',
  watch: false,
  reporters: [reporter],
})
process.on('message', (selections: readonly Selection[]) => void run(selections))
process.once('disconnect', () => process.exit())
process.send?.('ready')

/** @param selections - If there are none, all tests run. */
async function run(selections: readonly Selection[]): Promise<void> {
  failed = []
  durations = {}
  vitest.invalidateFile(SWITCH)
  const project = vitest.getRootProject()
  const specifications = selections.map(({ file, cases }) =>
    project.createSpecification(join(process.cwd(), file), cases && { testIds: [...cases] }),
  )
  const all = selections.length === 0 ? await vitest.globTestSpecifications() : specifications
  const { unhandledErrors } = await vitest.runTestSpecifications(all)
  const report: Report = { failed, isDisturbed: unhandledErrors.length > 0, durations }
  process.send?.(report)
}
