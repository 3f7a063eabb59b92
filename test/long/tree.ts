import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import type { Report, RunnerOptions, Selection } from './mutant-runner.ts'
import { apply, applyAll, type Mutant } from './mutants.ts'
import type { Found } from './reached.ts'

/** How the tests of the first run end, and those for a mutant. Each is tried three times (mutant.config.ts). */
const FIRST = { bail: 0, testTimeout: 30_000 }
const FOR_MUTANT = { bail: 1, testTimeout: 15_000 }

/** If no test has begun for so much longer than one may take, none will. */
const SLACK_MS = 10_000

/** How often that is looked at. */
const WATCH_MS = 500

/** A runner ends after so many runs: then nothing stays that tests have started and mutants have not ended. */
const RUNS = 50

const RUNNER = ['--import', 'tsx', 'test/long/mutant-runner.ts']
const BUNDLE = [
  '--import',
  'tsx',
  '-e',
  "import('./scripts/bundle.ts').then(({ bundleThreads }) => bundleThreads())",
]

/** Sources only: that takes a third of the time. */
const COMPILER = [
  ...['node_modules/typescript/bin/tsc', '--noEmit', '--project', 'test/long'],
  ...['--incremental', '--tsBuildInfoFile', 'mutant.tsbuildinfo'],
]

/** The files that have the number of the mutant that runs: see `mutant-switch.ts`. */
const SWITCH = 'test/long/mutant-switch.ts'
const BUNDLES = ['dist', 'lib']
const NUMBER = /mutant:\d{7}/g
const HITS = /mutant-hits:[\w./-]*/g
/** No mutant, whose tests are noted, or not. */
const NOTED = 0
const NONE = 9_999_999

/** The test that runs, as `mutant-test.ts` notes it; its time is when the test began. */
const HITS_FOLDER = 'test-hits'
const RUNNING = `${HITS_FOLDER}/test`

/** Whether tests failed; if they did not end, there is a loop without an end. */
export type Tested =
  | { readonly name: 'killed' | 'timed out'; readonly by: string }
  | { readonly name: 'survived' }

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
    this.kill()
    rmSync(this.root, { recursive: true, force: true })
  }

  /** @returns the exit code. */
  async run(args: readonly string[]): Promise<number> {
    const [code] = await once(this.start(args), 'exit')
    return code ?? 1
  }

  /** Starts a process in a group, so that all that it starts can be killed with it. */
  protected start(args: readonly string[]): ChildProcess {
    this.#child = spawn(process.execPath, args, {
      cwd: this.root,
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    return this.#child
  }

  protected kill(): void {
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
  /** Test files whose cases need each other. */
  readonly #joined: Set<string>
  /** Cases that pass alone without a mutant. */
  readonly #sure: Set<string>
  #runner: ChildProcess | undefined
  #runs = 0

  /** @param known - Another copy, with what is known of the tests. */
  private constructor(of: string, known?: MutantTree) {
    super(of)
    this.broken = known?.broken ?? new Set()
    this.#joined = known ? known.#joined : new Set()
    this.#sure = known ? known.#sure : new Set()
  }

  /** @param mutants - By number, from 1. */
  static async of(root: string, mutants: ReadonlyMap<number, Mutant>): Promise<MutantTree> {
    const tree = new MutantTree(root)
    for (const file of new Set([...mutants.values()].map((mutant) => mutant.file))) {
      const path = join(tree.root, file)
      const own = new Map([...mutants].filter(([, mutant]) => mutant.file === file))
      writeFileSync(path, applyAll(readFileSync(path, 'utf8'), own, relative(dirname(file), SWITCH)))
    }
    mkdirSync(join(tree.root, HITS_FOLDER))
    if ((await tree.run(BUNDLE)) !== 0) throw new Error('the threads cannot be built with mutants')
    return tree
  }

  /**
   * Runs a part of all tests without a mutant.
   *
   * @param part - Such as `1/2`.
   * @throws if they do not end: then nobody knows what those that are left would reach.
   */
  async findTests(part: string): Promise<Found> {
    writeFileSync(join(this.root, HITS_FOLDER, 'hits'), '')
    this.#activate(NOTED)
    const report = await this.#ask([], { ...FIRST, shard: part })
    if (report === 'silent') throw new Error(`without a mutant ${this.#running} does not end`)
    for (const { file } of report.failed) this.broken.add(file)
    this.#stop()
    return { hits: readFileSync(join(this.root, HITS_FOLDER, 'hits'), 'utf8'), durations: report.durations }
  }

  /** Another copy with the same mutants. */
  again(): MutantTree {
    return new MutantTree(this.root, this)
  }

  /** @param tests - In the order in which they are to run. */
  async try(mutant: number, tests: readonly Selection[]): Promise<Tested> {
    const selections = tests
      .filter(({ file }) => !this.broken.has(file))
      .map((selection) => (this.#joined.has(selection.file) ? { file: selection.file } : selection))
    if (selections.length === 0) return { name: 'survived' }
    const report = await this.#run(mutant, selections)
    if (report === 'silent') return this.#confirmSilence(mutant, selections)
    const [failure] = report.failed
    if (failure) return this.#confirm(mutant, selections, failure)
    if (!report.isDisturbed) return { name: 'survived' }
    const again = await this.#run(mutant, selections)
    const isSame = again !== 'silent' && again.isDisturbed
    return isSame ? { name: 'killed', by: 'an error outside of the tests' } : { name: 'survived' }
  }

  /** A case that failed has to pass alone without the mutant: once, or each time if it was too slow, as on a busy machine. */
  async #confirm(
    mutant: number,
    selections: readonly Selection[],
    { file, case: id, isLate }: Report['failed'][number],
  ): Promise<Tested> {
    const key = `${file} ${id}`
    const isWhole = id === undefined || this.#joined.has(file)
    if (isLate || !this.#sure.has(key)) {
      const report = await this.#run(NONE, [isWhole ? { file } : { file, cases: [id] }])
      if (report === 'silent' || report.failed.length > 0) {
        const unusable = isWhole ? this.broken : this.#joined
        unusable.add(file)
        return this.try(mutant, selections)
      }
    }
    this.#sure.add(key)
    return { name: 'killed', by: file }
  }

  /** Files share a process: one may wait for what another one has left. */
  async #confirmSilence(mutant: number, selections: readonly Selection[]): Promise<Tested> {
    const [running = ''] = this.#running.split(' ')
    const suspect = selections.find(({ file }) => file === running) ?? selections[0]
    if (!suspect) return { name: 'survived' }
    const others = selections.filter((selection) => selection !== suspect)
    if ((await this.#run(mutant, [suspect])) !== 'silent') return this.try(mutant, others)
    if ((await this.#run(NONE, [suspect])) !== 'silent') return { name: 'timed out', by: suspect.file }
    this.broken.add(suspect.file)
    return this.try(mutant, others)
  }

  async #run(mutant: number, selections: readonly Selection[]): Promise<Report | 'silent'> {
    this.#activate(mutant)
    return this.#ask(selections, FOR_MUTANT)
  }

  /** Makes a runner run these tests. If no test begins any more, it is killed, with all that it has started. */
  async #ask(selections: readonly Selection[], options: RunnerOptions): Promise<Report | 'silent'> {
    if (this.#runs++ % RUNS === 0) this.#stop()
    const runner = this.#runner ?? (await this.#startRunner(options))
    this.#runner = runner
    const running = join(this.root, RUNNING)
    writeFileSync(running, '')
    let [begun, left] = [0, 0]
    let watch: NodeJS.Timeout | undefined
    const report = await new Promise<Report | 'silent'>((resolve) => {
      runner.once('message', resolve).once('exit', () => resolve('silent'))
      runner.send(selections)
      // Not by the clock: all of these processes may be stopped for a while.
      watch = setInterval(() => {
        const { mtimeMs } = statSync(running)
        left = mtimeMs === begun ? left - WATCH_MS : options.testTimeout + SLACK_MS
        begun = mtimeMs
        if (left < 0) resolve('silent')
      }, WATCH_MS)
    })
    clearInterval(watch)
    runner.removeAllListeners()
    if (report === 'silent') this.#stop()
    return report
  }

  async #startRunner(options: RunnerOptions): Promise<ChildProcess> {
    const runner = this.start([...RUNNER, JSON.stringify(options)])
    runner.once('exit', () => runner.emit('error', new Error('the tests cannot be started')))
    await once(runner, 'message')
    runner.removeAllListeners()
    return runner
  }

  #stop(): void {
    this.kill()
    this.#runner = undefined
  }

  #activate(mutant: number): void {
    const bundles = BUNDLES.flatMap((folder) =>
      readdirSync(join(this.root, folder)).map((name) => join(folder, name)),
    )
    for (const file of [SWITCH, ...bundles.filter((name) => /\.c?js$/.test(name))]) {
      const path = join(this.root, file)
      const text = readFileSync(path, 'utf8')
      const changed = text
        .replace(NUMBER, `mutant:${String(mutant).padStart(7, '0')}`)
        .replace(HITS, `mutant-hits:${join(this.root, HITS_FOLDER)}`)
      if (changed !== text) writeFileSync(path, changed)
    }
  }

  /** The test file that runs, or ran when the process was killed, and its case; empty between files. */
  get #running(): string {
    return readFileSync(join(this.root, RUNNING), 'utf8')
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
