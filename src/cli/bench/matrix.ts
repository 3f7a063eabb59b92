/** A way to serve that is compared with others. */
export interface Variant {
  readonly name: string
  /** Words for the command line of `serve`, after those of the user. */
  readonly words: readonly string[]
}

/** What `--matrix` compares, the first with all others: add a line to compare more. */
export const VARIANTS: readonly Variant[] = [
  { name: 'kernel', words: ['--runtime', 'kernel'] },
  { name: 'kernel, fresh instances', words: ['--runtime', 'kernel', '--isolation', 'fresh'] },
  { name: 'sdk', words: ['--runtime', 'sdk'] },
  { name: 'kernel, 1 worker', words: ['--runtime', 'kernel', '--workers', '1'] },
  { name: 'kernel, 2 workers', words: ['--runtime', 'kernel', '--workers', '2'] },
]
