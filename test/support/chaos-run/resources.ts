import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/*
 * What processes of this machine hold, from `/proc`.
 */

/** A process below a server. */
export interface ProcessOf {
  readonly pid: number
  readonly parent: number
  readonly kind: 'primary' | 'serving' | 'guest'
}

/** The process with this id, and all below it. */
export function processesOf(primary: number): ProcessOf[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    const parent = /^\d+$/.test(name) ? parentOf(Number(name)) : undefined
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  const below = (pid: number): ProcessOf[] =>
    (children.get(pid) ?? []).flatMap((child) => {
      const words = read(`/proc/${child}/cmdline`)
      if (words === undefined || words === '') return [] // it has ended
      const kind = words.includes('serving-process') ? 'serving' : 'guest'
      return [{ pid: child, parent: pid, kind } as const, ...below(child)]
    })
  return [{ pid: primary, parent: 0, kind: 'primary' }, ...below(primary)]
}

function parentOf(pid: number): number | undefined {
  const stat = read(`/proc/${pid}/stat`)
  return stat === undefined ? undefined : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined // it has ended
  }
}

/** What is open in a process, by kind: `socket`, `pipe`, `anon_inode:[eventpoll]`, or a path. */
export function descriptorsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`
  try {
    return readdirSync(folder).flatMap((fd) => {
      try {
        return [readlinkSync(join(folder, fd))]
      } catch {
        return []
      }
    })
  } catch {
    return []
  }
}

function threadsOf(pid: number): number {
  return Number(/^Threads:\s+(\d+)$/m.exec(read(`/proc/${pid}/status`) ?? '')?.[1] ?? 0)
}

/** The client's port of each connection that a process has on the loopback interface. */
export function clientPortsOf(pid: number): number[] {
  const own = new Set(descriptorsOf(pid).flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []))
  return (read(`/proc/${pid}/net/tcp`) ?? '').split('\n').flatMap((line) => {
    const [, , , remote = '', , , , , , inode = ''] = line.trim().split(/\s+/).map(String)
    return own.has(inode) ? [Number.parseInt(remote.split(':')[1] ?? '', 16)] : []
  })
}

/** All files below a folder, by their paths in it. */
export function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
  } catch {
    return []
  }
}

/** What a server holds. Things of the same kind are numbered, so that each is a name with a count. */
export function holdingsOf(primary: number, folders: Readonly<Record<string, string>>): Map<string, string> {
  const held = new Map<string, string>()
  const processes = processesOf(primary)
  for (const kind of ['primary', 'serving', 'guest'] as const) {
    const these = processes.filter((each) => each.kind === kind)
    held.set(`${kind}: processes`, String(these.length))
    held.set(`${kind}: threads`, sorted(these.map(({ pid }) => threadsOf(pid))))
    const open = these.map(({ pid }) => descriptorsOf(pid))
    held.set(`${kind}: descriptors`, sorted(open.map((links) => links.length)))
    const sockets = open.map((links) => links.filter((link) => link.startsWith('socket')).length)
    held.set(`${kind}: sockets`, sorted(sockets))
  }
  for (const [name, folder] of Object.entries(folders)) held.set(name, String(filesIn(folder).length))
  return held
}

function sorted(counts: number[]): string {
  return counts.sort((one, other) => one - other).join(', ')
}
