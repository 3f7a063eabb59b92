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

/** The programs that are missing, or lack what the build needs. A variable such as `ZIG` names another program, as for `build.sh`. */
export function missingPrograms({ programs }: ToolchainSource, environment: Environment): string[] {
  return programs.flatMap(([name, ...words]) => {
    const [program = name, ...more] = environment[name.toUpperCase()]?.split(' ') ?? [name]
    const { status } = spawnSync(program, [...more, ...words], {
      env: { ...environment },
      stdio: 'ignore',
      timeout: PROBE_MS,
    })
    return status === 0 ? [] : [program]
  })
}
