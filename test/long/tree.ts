import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { apply, type Mutant } from './mutants.ts'

/** A test has half a minute (vitest.config.ts). If none has ended for so long, there is a loop that does not end. */
const SILENCE_MS = 90_000

/** Sources only: that takes a third of the time. */
const COMPILER = ['node_modules/typescript/bin/tsc', '--noEmit', '--project', 'test/long']

/** How the run of a command ended: its exit code, or that it was killed since it printed nothing for `SILENCE_MS`. */
type Ended = number | 'silent'

export interface Outcome {
  /**
   * `refused`: by the compiler, which is asked if no test fails. Such a mutant could not be committed, so that no test
   * is missing.
   */
  readonly name: 'killed' | 'timed out' | 'survived' | 'refused'
  /** The file of the test that failed. */
  readonly by?: string | undefined
}

/** Test files that fail without a mutant: what they say of mutants means nothing. */
export const broken = new Set<string>()

/** Test files that were seen to pass without a mutant. */
const passing = new Set<string>()

/** A copy of the package in the folder for temporary files, in which mutants are tried, one at a time. */
export class Tree {
  readonly #root: string
  readonly #deadline: number
  #child: ChildProcess | undefined

  /** @param deadline - When what still runs is killed, as `Date.now()` gives it. */
  constructor(root: string, deadline: number) {
    this.#deadline = deadline
    this.#root = realpathSync(mkdtempSync(join(tmpdir(), 'wasm-serve-mutants-')))
    const isLeftOut = (path: string) => ['.git', 'node_modules', 'target'].includes(basename(path))
    cpSync(root, this.#root, { recursive: true, filter: (path) => !isLeftOut(path) })
    symlinkSync(join(root, 'node_modules'), join(this.#root, 'node_modules'))
  }

  /** @param tests - Files of the tests that can notice the mutant, in the order in which they are to run. */
  async try(mutant: Mutant, tests: readonly string[]): Promise<Outcome> {
    const path = join(this.#root, mutant.file)
    const source = readFileSync(path, 'utf8')
    writeFileSync(path, apply(source, mutant))
    const tested = await this.#runTests(tests.filter((test) => !broken.has(test)))
    const compiled = tested === 0 ? await this.#run(COMPILER) : 0
    writeFileSync(path, source)

    if (tested === 'silent') return { name: 'timed out' }
    if (tested === 0) return { name: compiled === 0 ? 'survived' : 'refused' }
    const by = this.#failedTest()
    if (by === undefined || (await this.passes(by))) return { name: 'killed', by }
    broken.add(by)
    return this.try(mutant, tests)
  }

  /** Whether a test file passes without a mutant. */
  async passes(test: string): Promise<boolean> {
    if (!passing.has(test) && (await this.#runTests([test])) === 0) passing.add(test)
    return passing.has(test)
  }

  /** Kills what runs, and removes the copy. */
  close(): void {
    this.#kill()
    rmSync(this.#root, { recursive: true, force: true })
  }

  #runTests(tests: readonly string[]): Promise<Ended> {
    rmSync(join(this.#root, 'mutant.json'), { force: true })
    const projects = ['--project', 'unit', '--project', 'integration']
    const config = ['--config', 'test/long/mutant.config.ts']
    return this.#run(['node_modules/vitest/vitest.mjs', 'run', ...config, ...projects, ...tests], tests)
  }

  /** @returns undefined if Vitest itself failed, for example because the mutant is in the way of the bundler. */
  #failedTest(): string | undefined {
    const path = join(this.#root, 'mutant.json')
    if (!existsSync(path)) return undefined
    const report: { testResults: { name: string; status: string }[] } = JSON.parse(readFileSync(path, 'utf8'))
    const failed = report.testResults.find(({ status }) => status === 'failed')
    return failed && relative(this.#root, failed.name).replaceAll('\\', '/')
  }

  async #run(args: readonly string[], tests: readonly string[] = []): Promise<Ended> {
    const child = spawn(process.execPath, args, {
      cwd: this.#root,
      detached: true, // a process group, so that Vitest's workers can be killed with it
      env: { ...process.env, MUTANT_TESTS: tests.join(':') },
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    this.#child = child
    let isSilent = false
    const silence = setTimeout(() => {
      isSilent = true
      this.#kill()
    }, SILENCE_MS)
    const deadline = setTimeout(() => this.#kill(), this.#deadline - Date.now())
    child.stdout.on('data', () => silence.refresh())
    const [code] = await once(child, 'exit')
    clearTimeout(silence)
    clearTimeout(deadline)
    this.#kill()
    return isSilent ? 'silent' : (code ?? 1)
  }

  #kill(): void {
    try {
      if (this.#child?.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL')
    } catch {
      // The group has ended.
    }
    this.#child = undefined
  }
}
