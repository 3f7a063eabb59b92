import type { Effort } from './measure.ts'
import type { Settings } from './settings.ts'

/** A bench of `npm run bench -- NAME`. */
export interface Bench {
  readonly name: string
  /** Duration with its own settings, in minutes; `npm run bench -- all` prints the sum. */
  readonly minutes: number
  /** What this Node.js lacks for it; undefined if it can run. */
  missing?(): string | undefined
  run(settings: Settings, progress: (line: string) => void): Promise<Report>
}

export interface Report {
  /** The settings that were used, as one would type them. */
  readonly args: string
  /** Tables and sentences for people. */
  readonly markdown: string
  /** The raw results. */
  readonly data: object
  /** Pictures by name, as SVG; they are shown above the tables. */
  readonly plots?: Readonly<Record<string, string>>
}

/** An effort without a number of connections, and how one would type it. */
export function effortOf(
  { tool, quick, ...given }: Settings,
  usual: Omit<Effort, 'connections' | 'tool'>,
): { readonly effort: Omit<Effort, 'connections'>; readonly args: string } {
  const least = quick ? { runs: 1, seconds: 1, warmUpSeconds: 1 } : usual
  const runs = given.runs ?? least.runs
  const seconds = given.seconds ?? least.seconds
  const warmUpSeconds = given.warmUpSeconds ?? least.warmUpSeconds
  const toolArgs = tool.name === 'autocannon' ? '' : ` --tool ${tool.name}`
  return {
    effort: { tool, runs, seconds, warmUpSeconds },
    args: ` --runs ${runs} --seconds ${seconds} --warm-up ${warmUpSeconds}${toolArgs}`,
  }
}

/** The effort for a set: a median of ten ratios has an interval, and more short runs narrow it more than longer ones do. */
export const USUAL = { runs: 10, seconds: 1, warmUpSeconds: 2 }

/** What this Node.js lacks to merge the kernel; undefined if it can. */
export function missingMultiMemory(): string | undefined {
  return Number(process.versions.node.split('.')[0]) < 22 ? 'multi-memory (Node.js 22 and later)' : undefined
}
