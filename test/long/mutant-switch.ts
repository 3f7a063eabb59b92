import { appendFileSync, readFileSync } from 'node:fs'

/*
 * In a copy of the sources that has all mutants, decides which one runs: `tree.ts` exchanges the number, also in bundles. With
 * 0 none does, and each mutant that is reached is noted, with the file of the test that runs.
 */

const ACTIVE = Number('mutant:0000000'.slice(7))
const HITS = 'hits:'.slice(5)
const reached = new Set<number>()

export function isActive(mutant: number): boolean {
  if (ACTIVE === 0 && !reached.has(mutant)) note(mutant)
  return mutant === ACTIVE
}

/** Another test file begins. */
export function forget(): void {
  reached.clear()
}

function note(mutant: number): void {
  reached.add(mutant)
  try {
    appendFileSync(`${HITS}/hits`, `${mutant} ${readFileSync(`${HITS}/test`, 'utf8')}\n`)
  } catch {
    // A guest's process may not read or write files.
  }
}
