import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes a folder and its missing parents. `mkdirSync` with `recursive` loops forever where the system says "no such
 * folder" of one that cannot be made, as in `/proc`.
 *
 * Node.js 20 to 26. Related: https://github.com/nodejs/node/issues/27198, the same loop on Windows. Remove it when
 * `mkdirSync('/proc/x/y', { recursive: true })` throws.
 *
 * @param mode - Permissions of the folders that are made.
 * @throws the system's error for the first folder that cannot be made.
 */
export function makeFolder(path: string, mode = 0o777): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
  const parent = dirname(path)
  if (parent !== path) makeFolder(parent, mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // Another process may have made it meanwhile.
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error
  }
}
