import { appendFileSync, readFileSync } from 'node:fs'

/*
 * In a copy of the sources that has all mutants, decides which one runs: `tree.ts` exchanges the number and the folder, also in bundles. With
 * 0 none does, and each mutant that is reached is noted, with the file of the test that runs, and its case. In other threads
 * and processes the case is not known: there it may have been reached by all cases of the file.
 */

const ACTIVE = Number('mutant:0000000'.slice(7))
const HITS = 'mutant-hits:'.slice(12)
const reached = new Set<number>()
let running: string | undefined

export function isActive(mutant: number): boolean {
  if (ACTIVE === 0 && !reached.has(mutant)) note(mutant)
  return mutant === ACTIVE
}

/** @param test - The file and the case that run from now on, or the file; empty between files. */
export function begin(test: string): void {
  running = test
  reached.clear()
}

function note(mutant: number): void {
  reached.add(mutant)
  try {
    const test = running ?? readFileSync(`${HITS}/test`, 'utf8').split(' ')[0]
    appendFileSync(`${HITS}/hits`, `${mutant} ${test}\n`)
  } catch {
    // A guest's process may not read or write files.
  }
}
