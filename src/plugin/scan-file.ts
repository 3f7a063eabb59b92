import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { type ModuleJob, readFacts } from './load-module.ts'
import { type ModuleFacts, type PackedFacts, packFacts } from './module-facts.ts'
import { sha256 } from './source/digest.ts'

/** A file of a module that was read without its code, and not kept. */
export interface ScannedFile<Facts = ModuleFacts> {
  /** SHA-256 of its bytes, in hex. */
  readonly digest: string
  /** In bytes. */
  readonly size: number
  readonly facts: Facts
}

/** How files are read: see {@link ModuleJob}. */
export type ScanJob = Pick<ModuleJob, 'memoryMax' | 'limits'>

/**
 * Reads the file of a module. Called in a thread.
 *
 * @returns undefined if it is not the file of a module. Its plug-in is then loaded as any other, which finds the reason.
 */
export function scanFile(path: string, job: ScanJob): ScannedFile<PackedFacts> | undefined {
  let file: number | undefined
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK) // does not wait for the writer of a pipe
    if (!fstatSync(file).isFile()) return undefined
    const bytes = readFileSync(file)
    const facts = packFacts(readFacts(bytes, { ...job, name: path, renewable: 'no' }))
    return { digest: sha256(bytes), size: bytes.length, facts }
  } catch {
    return undefined
  } finally {
    if (file !== undefined) closeSync(file)
  }
}
