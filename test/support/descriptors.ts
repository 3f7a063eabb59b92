import { execFileSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import process from 'node:process'
import { onTestFinished } from 'vitest'

/** Leaves this process a number of descriptors. @returns gives it the others again. */
export function takeDescriptors(left: number): () => void {
  const limit = (...more: string[]) =>
    execFileSync('prlimit', ['--pid', String(process.pid), ...more], { encoding: 'utf8' })
  const soft = limit('--nofile', '--noheadings', '--output', 'SOFT').trim()
  limit('--nofile=512:')
  const taken: number[] = []
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'))
  } catch {
    // These are all.
  }
  for (const fd of taken.splice(-left)) closeSync(fd)
  const free = () => {
    for (const fd of taken.splice(0)) closeSync(fd)
    limit(`--nofile=${soft}:`)
  }
  onTestFinished(() => free())
  return free
}
