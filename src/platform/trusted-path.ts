import { lstatSync, readlinkSync, type Stats, statSync } from 'node:fs'
import { dirname, join, parse, resolve, sep } from 'node:path'
import { geteuid } from 'node:process'
import { errorCode } from './system-errors.ts'

/** Limit of symbolic links in one path, as in Linux. */
const MAX_LINKS = 40

/** Permission to write for the group and for others; an access list shows as that of the group. */
const WRITABLE_BY_OTHERS = 0o022

/** The bit of a folder in which users can replace only their own files. */
const STICKY = 0o1000

/**
 * Why a user other than the process's user or root could change or replace the file at a path. Checks the file, all
 * its parent folders, and the symbolic links on the way with their targets.
 *
 * @param path - If it does not exist, only its parent folders are checked.
 * @param user - The expected owner. Default: the user of the process. Nothing is checked on Windows.
 * @returns a reason with a remedy; undefined if no other user could.
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
    const stat = trustedStat(next)
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
    if ((stat.mode & WRITABLE_BY_OTHERS) !== 0 && !(isInner && (stat.mode & STICKY) !== 0))
      return problemWithMode(next, stat, isInner)
    at = next
  }
  return undefined
}

/** Whether every user may write to a file; false where the system does not say. */
export function isWritableByAll(path: string): boolean {
  const stat = geteuid && statSync(path, { throwIfNoEntry: false })
  return stat?.isFile() === true && (stat.mode & 0o002) !== 0
}

function stepsOf(path: string): string[] {
  return path.split(sep).filter((step) => step !== '' && step !== '.')
}

/** `hidden`: Node's permission model hides it from the process; its flags name the folders that count. */
function trustedStat(path: string): Stats | 'missing' | 'hidden' {
  try {
    return lstatSync(path)
  } catch (error) {
    return errorCode(error) === 'ERR_ACCESS_DENIED' ? 'hidden' : 'missing'
  }
}

function problemWithOwner(path: string, owner: number, user: number): string {
  return `${path} belongs to another user (uid ${owner}), who could change it: give it to this one (chown ${user} ${path}), or use another path`
}

function problemWithMode(path: string, stat: Stats, isAround: boolean): string {
  const mode = (stat.mode & 0o7777).toString(8)
  const remedy = isAround ? 'chmod go-w' : stat.isDirectory() ? 'chmod 700' : 'chmod 600'
  return `other users may write to ${path} (mode ${mode}): ${remedy} ${path}`
}
