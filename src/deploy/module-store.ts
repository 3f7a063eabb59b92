import { randomUUID } from 'node:crypto'
import { open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StateInvalidError } from '../errors/errors.ts'
import { makeFolder } from '../platform/node-workarounds.ts'
import { sha256InSlices } from '../plugin/source/digest.ts'

/** The bytes of modules, by their digests. */
export interface ModuleStore {
  /** @throws {@link StateInvalidError} if it has others, or none. */
  get(digest: string): Promise<Uint8Array>
  put(digest: string, bytes: Uint8Array): Promise<void>
  /** Forgets all others. */
  keep(digests: ReadonlySet<string>): Promise<void>
}

/** One that ends with the process. */
export function storeInMemory(): ModuleStore {
  const modules = new Map<string, Uint8Array>()
  return {
    async get(digest) {
      const bytes = modules.get(digest)
      if (!bytes) throw new StateInvalidError('in memory', `module ${digest} is missing`)
      return bytes
    },
    put: async (digest, bytes) => void modules.set(digest, bytes),
    async keep(digests) {
      for (const digest of modules.keys()) if (!digests.has(digest)) modules.delete(digest)
    },
  }
}

/** @param folder - Made when needed. */
export function storeInFolder(folder: string): ModuleStore & { readonly place: string } {
  const place = join(folder, 'modules')
  return {
    place,
    async get(digest) {
      const bytes = await readFile(join(place, digest)).catch((error) => {
        throw new StateInvalidError(folder, `module ${digest}: ${error.message}`, { cause: error })
      })
      if ((await sha256InSlices(bytes)) === digest) return bytes
      throw new StateInvalidError(folder, `the bytes of module ${digest} are not those that were written`)
    },
    async put(digest, bytes) {
      const known = await readFile(join(place, digest)).catch(() => undefined) // it is written below
      if (!known || (await sha256InSlices(known)) !== digest) await writeWhole(place, digest, bytes)
    },
    async keep(digests) {
      const names = await readdir(place).catch(() => []) // there is none yet
      const old = names.filter((name) => OURS.test(name) && !digests.has(name))
      await Promise.all(old.map((name) => rm(join(place, name), { force: true })))
    },
  }
}

/** Modules, and what was left of one when the process was killed. */
const OURS = /^(?:[\da-f]{64}|\.[\da-f]{64}\.[\da-f-]+)$/

/** Writes a file so that after a crash of the process or the machine it is there as it was, or as it is now. */
export async function writeWhole(folder: string, name: string, content: Uint8Array | string): Promise<void> {
  makeFolder(folder, 0o700)
  const temporary = join(folder, `.${name}.${randomUUID()}`)
  try {
    const file = await open(temporary, 'wx', 0o600)
    try {
      await file.writeFile(content)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, join(folder, name))
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  const directory = await open(folder)
  try {
    await directory.sync() // the name too
  } finally {
    await directory.close()
  }
}
