import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import { apply, applyAll, type Mutant } from './mutants.ts'

/** A test has half a minute (vitest.config.ts), three times (mutant.config.ts). If none has ended for so long, one never will. */
const SILENCE_MS = 100_000

const VITEST = ['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/long/mutant.config.ts']
const BUNDLE = [
  '--import',
  'tsx',
  '-e',
  "import('./scripts/bundle.ts').then(({ bundleThreads }) => bundleThreads())",
]

/** Sources only: that takes a third of the time. */
const COMPILER = ['node_modules/typescript/bin/tsc', '--noEmit', '--project', 'test/long']

/** The files that have the number of the mutant that runs: see `mutant-switch.ts`. */
const SWITCH = 'test/long/mutant-switch.ts'
const BUNDLES = ['dist', 'lib']
const NUMBER = /mutant:\d{7}/g

/** How the run of a command ended: its exit code, or that it was killed since it printed nothing for `SILENCE_MS`. */
type Ended = number | 'silent'

/** Whether tests failed; if they did not end, there is a loop without an end. */
export type Tested =
  | { readonly name: 'killed'; readonly by: string | undefined }
  | { readonly name: 'timed out' | 'survived' }

/** A copy of the package in the folder for temporary files. */
class Copy {
  readonly root: string
  #child: ChildProcess | undefined

  /** @param from - The package, or another copy of it. */
  constructor(from: string) {
    this.root = realpathSync(mkdtempSync(join(tmpdir(), 'wasm-serve-mutants-')))
    const isLeftOut = (path: string) => ['.git', 'node_modules', 'target'].includes(basename(path))
    cpSync(from, this.root, { recursive: true, filter: (path) => !isLeftOut(path) })
    symlinkSync(realpathSync(join(from, 'node_modules')), join(this.root, 'node_modules'))
  }

  /** Kills what runs, and removes the copy. */
  close(): void {
    this.#kill()
    rmSync(this.root, { recursive: true, force: true })
  }

  async run(args: readonly string[], tests: readonly string[] = []): Promise<Ended> {
    const child = spawn(process.execPath, args, {
      cwd: this.root,
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
    child.stdout.on('data', () => silence.refresh())
    const [code] = await once(child, 'exit')
    clearTimeout(silence)
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

/** A copy with all mutants, of which one runs at a time. */
export class MutantTree extends Copy {
  /** Test files that fail without a mutant: what they say of mutants means nothing. */
  readonly broken: Set<string>

  /** @param of - The package, or another such copy. */
  private constructor(of: string, broken = new Set<string>()) {
    super(of)
    this.broken = broken
  }

  /** @param mutants - By number, from 1. */
  static async of(root: string, mutants: ReadonlyMap<number, Mutant>): Promise<MutantTree> {
    const tree = new MutantTree(root)
    for (const file of new Set([...mutants.values()].map((mutant) => mutant.file))) {
      const path = join(tree.root, file)
      const own = new Map([...mutants].filter(([, mutant]) => mutant.file === file))
      writeFileSync(path, applyAll(readFileSync(path, 'utf8'), own, relative(dirname(file), SWITCH)))
    }
    const hits = join(tree.root, 'test-hits')
    mkdirSync(hits)
    writeFileSync(join(hits, 'hits'), '')
    writeFileSync(join(hits, 'test'), '')
    const path = join(tree.root, SWITCH)
    writeFileSync(path, readFileSync(path, 'utf8').replace('hits:', `hits:${hits}`))
    if ((await tree.run(BUNDLE)) !== 0) throw new Error('the threads cannot be built with mutants')
    return tree
  }

  /**
   * Runs all tests without a mutant.
   *
   * @returns the test files that reach each mutant.
   * @throws if they do not end: then nobody knows what those that are left would reach.
   */
  async findTests(): Promise<Map<number, Set<string>>> {
    if ((await this.run(VITEST)) === 'silent')
      throw new Error(`without a mutant ${this.#running} does not end`)
    for (const { name, status } of this.#results()) if (status === 'failed') this.broken.add(name)
    const tests = new Map<number, Set<string>>()
    const hits = readFileSync(join(this.root, 'test-hits/hits'), 'utf8')
    for (const [, mutant, test = ''] of hits.matchAll(/^(\d+) (.*)$/gm)) {
      const own = tests.get(Number(mutant)) ?? new Set()
      tests.set(Number(mutant), own.add(test))
    }
    return tests
  }

  /** Another copy with the same mutants. */
  again(): MutantTree {
    return new MutantTree(this.root, this.broken)
  }

  /** @param tests - In the order in which they are to run. */
  async try(mutant: number, tests: readonly string[]): Promise<Tested> {
    const files = tests.filter((test) => !this.broken.has(test))
    if (files.length === 0) return { name: 'survived' }
    this.#activate(mutant)
    const ended = await this.#runTests(files)
    if (ended === 0) return { name: 'survived' }
    const by =
      ended === 'silent' ? this.#running : this.#results().find(({ status }) => status === 'failed')?.name
    const tested: Tested = ended === 'silent' ? { name: 'timed out' } : { name: 'killed', by }
    if (by === undefined) return tested
    // Files share a process: one may wait for what another one has left.
    const others = files.filter((file) => file !== by)
    if (ended === 'silent' && (await this.#runTests([by])) === 0) return this.try(mutant, others)
    this.#activate(9_999_999) // none
    if ((await this.#runTests([by])) === 0) return tested
    this.broken.add(by)
    return this.try(mutant, others)
  }

  #activate(mutant: number): void {
    const bundles = BUNDLES.flatMap((folder) =>
      readdirSync(join(this.root, folder)).map((name) => join(folder, name)),
    )
    for (const file of [SWITCH, ...bundles.filter((name) => /\.c?js$/.test(name))]) {
      const path = join(this.root, file)
      const text = readFileSync(path, 'utf8')
      const changed = text.replace(NUMBER, `mutant:${String(mutant).padStart(7, '0')}`)
      if (changed !== text) writeFileSync(path, changed)
    }
  }

  #runTests(tests: readonly string[]): Promise<Ended> {
    rmSync(join(this.root, 'mutant.json'), { force: true })
    return this.run([...VITEST, ...tests], tests)
  }

  /** The test file that runs, or ran when the process was killed. */
  get #running(): string | undefined {
    return readFileSync(join(this.root, 'test-hits/test'), 'utf8') || undefined
  }

  /** Empty if Vitest itself failed. */
  #results(): { readonly name: string; readonly status: string }[] {
    const path = join(this.root, 'mutant.json')
    if (!existsSync(path)) return []
    const report: { testResults: { name: string; status: string }[] } = JSON.parse(readFileSync(path, 'utf8'))
    return report.testResults.map(({ name, status }) => ({ name: relative(this.root, name), status }))
  }
}

/** A copy in which mutants are compiled: one that the compiler refuses could not be committed, so that no test is missing. */
export class CompiledTree extends Copy {
  async accepts(mutant: Mutant): Promise<boolean> {
    const path = join(this.root, mutant.file)
    const source = readFileSync(path, 'utf8')
    writeFileSync(path, apply(source, mutant))
    try {
      return (await this.run(COMPILER)) === 0
    } finally {
      writeFileSync(path, source)
    }
  }
}
