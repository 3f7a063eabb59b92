import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs'
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

/** Files up to this size are read into the same memory, one after another: new memory for each would be garbage for long. */
const SCRATCH_BYTES = 4_194_304

/** Reads files of modules, in a thread. */
export class FileScanner {
  #scratch: Buffer | undefined

  /**
   * Reads the file of a module.
   *
   * @returns undefined if it is not the file of a module. Its plug-in is then loaded as any other, which finds the reason.
   */
  scan(path: string, job: ScanJob): ScannedFile<PackedFacts> | undefined {
    let file: number | undefined
    try {
      file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK) // does not wait for the writer of a pipe
      const found = fstatSync(file)
      if (!found.isFile()) return undefined
      const bytes = found.size < SCRATCH_BYTES ? this.#read(file) : readFileSync(file)
      const facts = packFacts(readFacts(bytes, { ...job, name: path, resettable: 'no' }))
      return { digest: sha256(bytes), size: bytes.length, facts }
    } catch {
      return undefined
    } finally {
      if (file !== undefined) closeSync(file)
    }
  }

  /** The result is valid until the next file is read. */
  #read(file: number): Uint8Array {
    this.#scratch ??= Buffer.allocUnsafeSlow(SCRATCH_BYTES)
    let length = 0
    for (;;) {
      const read = readSync(file, this.#scratch, length, SCRATCH_BYTES - length, length)
      if (read === 0) return this.#scratch.subarray(0, length)
      length += read
      if (length === SCRATCH_BYTES) return readFileSync(file) // it grows meanwhile
    }
  }
}
