import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type Dirent, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { printOf } from '../../deploy/file-snapshot.ts'
import { BuildFailedError } from '../../errors/errors.ts'
import type { Environment } from '../../options/config.ts'
import type { BuildCommand } from './project.ts'

/** The polling interval. */
const LOOK_MS = 200

/** The maximum share of time spent on polling. */
const SHARE = 1 / 20

/** A file that changes during so many builds in a row is written by the build. */
const OWN_BUILDS = 3

/** A build that has failed, with what it has printed. */
export type BuildFailure = InstanceType<typeof BuildFailedError>

/** The length of what is kept of a build's output, in characters. */
const MAX_OUTPUT = 32_768

/** Compilers that write to a pipe use colours only if they are told to. */
const COLOURS = { CARGO_TERM_COLOR: 'always', FORCE_COLOR: '1', CLICOLOR_FORCE: '1' }

/** A process group ends with all that it has started. Windows has none, and would open a window. */
const GROUP = { detached: process.platform !== 'win32', windowsHide: true }

/** The builds of a project, one at a time, and the changes of its sources. */
export class Builds {
  readonly #folder: string
  readonly #command: BuildCommand | undefined
  readonly #environment: Environment
  readonly #write: (text: string) => void
  readonly #colours: boolean
  /** Those that were built, or are served as they are. */
  #sources: Sources = new Map()
  /** In how many builds in a row a file has changed. */
  #during: ReadonlyMap<string, number> = new Map()
  #isAsked = false
  #child: ChildProcess | undefined

  /**
   * @param command - undefined if there is nothing to build: only changes are seen.
   * @param write - Receives the output of builds, and lines about them.
   * @param colours - Whether compilers use colours.
   */
  constructor(
    folder: string,
    command: BuildCommand | undefined,
    environment: Environment,
    write: (text: string) => void,
    colours: boolean,
  ) {
    this.#folder = folder
    this.#command = command
    this.#environment = environment
    this.#write = write
    this.#colours = colours
  }

  /** Builds what the sources are now; again if they change meanwhile. @returns why the last build has failed; undefined if it has not. */
  async build(): Promise<BuildFailure | undefined> {
    const command = this.#command
    for (;;) {
      this.#isAsked = false
      const before = sourcesIn(this.#folder)
      this.#sources = before
      if (!command) return undefined
      const failure = await this.#run(command)
      this.#sources = sourcesIn(this.#folder)
      const changed = changesOf(before, this.#sources)
      const countOf = (path: string) => (before.has(path) ? (this.#during.get(path) ?? 0) + 1 : OWN_BUILDS) // what was not there is made by the build
      const counts = changed.map((path) => [path, countOf(path)] as const)
      this.#during = new Map(counts)
      const foreign = counts.flatMap(([path, count]) => (count < OWN_BUILDS ? [path] : []))
      if (foreign.length === 0 && !this.#isAsked) return failure
      if (foreign.length > 0) this.#say(`${foreign[0]} has changed during the build: building again`)
    }
  }

  /** Requests a build of what has not changed. */
  ask(): void {
    this.#isAsked = true
  }

  /**
   * Waits until a source has changed since {@link Builds.build}, or a build was requested.
   *
   * @param looks - Whether sources are looked at.
   * @returns whether it was requested.
   */
  async next(looks: boolean): Promise<boolean> {
    for (let tookMs = 0; ; ) {
      await sleep(Math.max(LOOK_MS, tookMs / SHARE))
      if (this.#isAsked) return true
      if (!looks) continue
      const begun = performance.now()
      const changed = changesOf(this.#sources, sourcesIn(this.#folder))
      if (changed.length > 0) {
        const own = [...this.#during].filter(([path]) => !changed.includes(path))
        this.#during = new Map(own)
        return false
      }
      tookMs = performance.now() - begun
    }
  }

  /** Ends a build that runs, with the programs that it has started. */
  kill(): void {
    const pid = this.#child?.pid
    if (pid === undefined) return
    try {
      if (process.platform === 'win32') spawnSync('taskkill', ['/pid', `${pid}`, '/t', '/f'])
      else process.kill(-pid, 'SIGTERM')
    } catch {
      // it has just ended
    }
  }

  #say(line: string): void {
    this.#write(`${line}\n`)
  }

  async #run({ words, environment }: BuildCommand): Promise<BuildFailure | undefined> {
    const [program, ...args] = words
    this.#say(`Building: ${words.join(' ')}`)
    const begun = performance.now()
    const child = spawn(program, args, {
      cwd: this.#folder,
      env: { ...this.#environment, ...(this.#colours && COLOURS), ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...GROUP,
      shell: process.platform === 'win32' && program === 'npm', // a batch file there
    })
    this.#child = child
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#write(text)
        output = (output + text).slice(-MAX_OUTPUT)
      })
    }
    const ended = await once(child, 'close').then(
      ([code, signal]) => (code === 0 ? undefined : `it exited with ${signal ?? `status ${code}`}`),
      (error: Error) => error.message,
    )
    this.#child = undefined
    if (ended === undefined) this.#say(`Built in ${((performance.now() - begun) / 1000).toFixed(1)} s`)
    else this.#say(`The build failed: ${ended}`)
    return ended === undefined
      ? undefined
      : new BuildFailedError(ended, stripVTControlCharacters(output).trim())
  }
}

/** The state of each source, by its path. */
type Sources = ReadonlyMap<string, string>

/** All files of a folder but hidden ones, and those of packages and builds. */
function sourcesIn(folder: string): Sources {
  return new Map(filesIn(folder).map((path) => [path, printOf(path)]))
}

function filesIn(folder: string): string[] {
  return entriesOf(folder)
    .filter(({ name }) => !name.startsWith('.') && !OF_BUILDS.includes(name) && !name.endsWith('.wasm'))
    .flatMap((entry) => {
      const path = join(folder, entry.name)
      return entry.isDirectory() ? filesIn(path) : [path]
    })
}

const OF_BUILDS = ['node_modules', 'target', 'dist']

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return [] // it has just been removed, or cannot be read: nothing in it is a source
  }
}

function changesOf(before: Sources, after: Sources): string[] {
  const paths = new Set([...before.keys(), ...after.keys()])
  return [...paths].filter((path) => before.get(path) !== after.get(path))
}
