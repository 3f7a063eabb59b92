import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What the kernel lets a process do. */
export interface Confinement {
  /** Its users and groups (real, effective, saved, of files), each once. */
  readonly ids: readonly number[]
  /** Its sets of capabilities, in hexadecimal, each once. */
  readonly capabilities: readonly string[]
  readonly hasNoNewPrivileges: boolean
  readonly hasSeccompFilter: boolean
  readonly isRootReadOnly: boolean
  /** The memory limit of its cgroup, in bytes. */
  readonly memoryLimit: number
}

/** Reads it from `/proc`. */
export function confinementOf(pid: number): Confinement {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const field = (name: string) => (new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? '').split(/\s+/)
  const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')
  const root = mounts.map((line) => line.split(' ')).find(([, , , , point]) => point === '/')
  return {
    ids: [...new Set([...field('Uid'), ...field('Gid')])].map(Number),
    capabilities: [...new Set(['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].flatMap(field))],
    hasNoNewPrivileges: field('NoNewPrivs')[0] === '1',
    hasSeccompFilter: field('Seccomp')[0] === '2',
    isRootReadOnly: root?.[5]?.split(',')[0] === 'ro',
    memoryLimit: readNumber(pid, ['memory.limit_in_bytes', 'memory.max']),
  }
}

/** The most memory that the cgroup of a process had, with its cache of files, in bytes. */
export function mostMemoryOf(pid: number): number {
  return readNumber(pid, ['memory.max_usage_in_bytes', 'memory.peak'])
}

/** The first file of its memory cgroup that exists. */
function readNumber(pid: number, names: readonly string[]): number {
  const folder = memoryFolderOf(pid)
  const found = names.map((name) => join(folder, name)).find((path) => existsSync(path))
  return Number(found === undefined ? Number.NaN : readFileSync(found, 'utf8'))
}

/** The folder of a process's memory cgroup, of version 1 or 2. */
function memoryFolderOf(pid: number): string {
  const lines = readFileSync(`/proc/${pid}/cgroup`, 'utf8').split('\n')
  const pathOf = (controllers: string) =>
    lines.map((line) => line.split(':')).find(([, names]) => names === controllers)?.[2]
  const first = pathOf('memory')
  return first === undefined ? join('/sys/fs/cgroup', pathOf('') ?? '') : join('/sys/fs/cgroup/memory', first)
}
