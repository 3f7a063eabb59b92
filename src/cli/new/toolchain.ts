import { spawnSync } from 'node:child_process'
import type { Environment } from '../../options/config.ts'

/** What builds plug-ins of a language. */
export interface ToolchainSource {
  /** Display name. */
  readonly name: string
  /** One-line installation instructions. */
  readonly get: string
  /** What has to run without a failure: programs and their arguments. */
  readonly programs: readonly (readonly [program: string, ...words: string[]])[]
}

/** Time for one program to say its version. */
const PROBE_MS = 20_000

/** Variables that name another program, as in `build.sh`. */
const VARIABLES: Readonly<Record<string, string>> = {
  tinygo: 'TINYGO',
  clang: 'CC',
  zig: 'ZIG',
}

/** The programs that are missing, or lack what the build needs. */
export function missingPrograms({ programs }: ToolchainSource, environment: Environment): string[] {
  return programs.flatMap(([name, ...words]) => {
    const named = environment[VARIABLES[name] ?? ''] || name
    const [program = name, ...more] = named.split(' ')
    const { status } = spawnSync(program, [...more, ...words], {
      env: { ...environment },
      stdio: 'ignore',
      timeout: PROBE_MS,
    })
    return status === 0 ? [] : [program]
  })
}
