import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Environment } from '../../options/config.ts'

/** What builds plug-ins of a language. */
export interface ToolchainSource {
  /** Display name. */
  readonly name: string
  /** One-line installation instructions. */
  readonly get: string
  /** What to run to install it, where that is shorter. */
  readonly installs?: Partial<Readonly<Record<System, string>>>
  /** What has to run without a failure: programs and their arguments. */
  readonly programs: readonly (readonly [program: string, ...words: string[]])[]
  /** The first version of the first program that will do, such as `1.24`. It prints its version. */
  readonly since?: string
}

/** Systems for which installation is described. */
const SYSTEMS = ['Debian', 'Fedora', 'macOS', 'Windows'] as const

type System = (typeof SYSTEMS)[number]

/** How to install a toolchain on each system. */
export function installsOf({ get, installs }: ToolchainSource): [system: System, install: string][] {
  return SYSTEMS.map((system) => [system, installs?.[system] ?? get])
}

/** How to install a toolchain on this machine. */
export function installHere({ get, installs }: ToolchainSource): string {
  const system = systemHere()
  return (system && installs?.[system]) ?? get
}

/** undefined if none of them is like it. */
function systemHere(): System | undefined {
  if (process.platform === 'win32') return 'Windows'
  if (process.platform === 'darwin') return 'macOS'
  try {
    // https://www.freedesktop.org/software/systemd/man/latest/os-release.html
    const lines = readFileSync('/etc/os-release', 'utf8').split('\n')
    const like = lines.filter((line) => line.startsWith('ID=') || line.startsWith('ID_LIKE=')).join(' ')
    if (/\b(?:debian|ubuntu)\b/.test(like)) return 'Debian'
    return /\b(?:fedora|rhel)\b/.test(like) ? 'Fedora' : undefined
  } catch {
    return undefined // a small image has no such file
  }
}

/** Time for one program to say its version. */
const PROBE_MS = 20_000

/** Variables that name another program, as in `build.sh`. */
const VARIABLES: Readonly<Record<string, string>> = {
  tinygo: 'TINYGO',
  clang: 'CC',
  zig: 'ZIG',
}

/** The programs that are missing, are too old, or lack what the build needs. */
export function missingPrograms({ programs, since }: ToolchainSource, environment: Environment): string[] {
  return programs.flatMap(([name, ...words], index) => {
    const named = environment[VARIABLES[name] ?? '']
    const [program = name, ...more] = named ? named.split(' ') : [name]
    const { status, stdout } = spawnSync(program, [...more, ...words], {
      env: { ...environment },
      stdio: ['ignore', 'pipe', 'ignore'],
      encoding: 'utf8',
      timeout: PROBE_MS,
      shell: process.platform === 'win32' && program === 'npm', // a batch file there
    })
    if (status !== 0) return [program]
    const isOld = index === 0 && since !== undefined && isBefore(stdout, since)
    return isOld ? [`${program} ${since}`] : []
  })
}

/** Whether the first version in a text is before another one. A text without a version is not. */
function isBefore(text: string, since: string): boolean {
  const found = text.split(/[^\d.]/).find((word) => word.includes('.'))
  const [major = Number.NaN, minor = Number.NaN] = (found ?? '').split('.').map(Number)
  const [wantedMajor = 0, wantedMinor = 0] = since.split('.').map(Number)
  return major < wantedMajor || (major === wantedMajor && minor < wantedMinor)
}
