import { lstatSync, readlinkSync, type Stats, statSync } from 'node:fs'
import { dirname, join, parse, resolve, sep } from 'node:path'
import { geteuid } from 'node:process'

/** As many links as Linux follows in one path. */
const MAX_LINKS = 40

/** Permission to write for the group and for others; an access list shows as that of the group. */
const WRITABLE = 0o022

/** In such a folder each user may exchange his own files only. */
const STICKY = 0o1000

/**
 * Why somebody else than the process's user, or root, could change what is at a path, or put other things in its place.
 * Looks at what is there, at all folders around it, and at links on the way with what they lead to.
 *
 * @param path - Need not be there: then the folders around it are looked at.
 * @param user - Whose it should be. Default: the user of the process. Nothing is checked on Windows.
 * @returns a reason that says what to do; undefined if nobody could.
 */
export function problemWithPath(path: string, user: number | undefined = geteuid?.()): string | undefined {
  if (user === undefined) return undefined
  const { root } = parse(resolve(path))
  const left = stepsOf(resolve(path))
  let at = root
  let links = 0
  for (let step = left.shift(); step !== undefined; step = left.shift()) {
    if (step === '..') {
      at = dirname(at)
      continue
    }
    const next = join(at, step)
    const stat = statOf(next)
    if (stat === 'missing') return undefined
    if (stat === 'hidden') {
      at = next
      continue
    }
    if (stat.uid !== user && stat.uid !== 0) return problemWithOwner(next, stat.uid, user)
    if (stat.isSymbolicLink()) {
      if (++links > MAX_LINKS) return `${path} leads through more than ${MAX_LINKS} links`
      const target = readlinkSync(next)
      if (target.startsWith(sep)) at = root
      left.unshift(...stepsOf(target))
      continue
    }
    const isInner = left.length > 0
    if ((stat.mode & WRITABLE) !== 0 && !(isInner && (stat.mode & STICKY) !== 0))
      return problemWithMode(next, stat, isInner)
    at = next
  }
  return undefined
}

/** Whether every user may write to a file; false where that cannot be known. */
export function isWritableByAll(path: string): boolean {
  const stat = geteuid && statSync(path, { throwIfNoEntry: false })
  return stat?.isFile() === true && (stat.mode & 0o002) !== 0
}

function stepsOf(path: string): string[] {
  return path.split(sep).filter((step) => step !== '' && step !== '.')
}

/** `hidden`: Node's permission model does not show it to the process; who set that up named the folders that count. */
function statOf(path: string): Stats | 'missing' | 'hidden' {
  try {
    return lstatSync(path)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_ACCESS_DENIED' ? 'hidden' : 'missing'
  }
}

function problemWithOwner(path: string, owner: number, user: number): string {
  return `${path} belongs to another user (uid ${owner}), who could change it: give it to this one (chown ${user} ${path}), or name another place`
}

function problemWithMode(path: string, stat: Stats, isAround: boolean): string {
  const mode = (stat.mode & 0o7777).toString(8)
  const remedy = isAround ? 'chmod go-w' : stat.isDirectory() ? 'chmod 700' : 'chmod 600'
  return `other users may write to ${path} (mode ${mode}): ${remedy} ${path}`
}
