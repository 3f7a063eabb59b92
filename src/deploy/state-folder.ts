import { randomUUID } from 'node:crypto'
import { open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StateInvalidError, StateUntrustedError, StateUnwritableError } from '../errors/errors.ts'
import { EventLoopYielder } from '../platform/event-loop.ts'
import { makeFolder } from '../platform/make-folder.ts'
import { problemWithPath } from '../platform/trusted-path.ts'
import { sha256InSlices } from '../plugin/source/digest.ts'
import { bytesOf, type ModuleBytes } from '../plugin/source/module-bytes.ts'
import { type Edits, NO_EDITS } from './edits.ts'
import { parseState, renderState } from './state-json.ts'

/** Storage of edits. */
export interface EditStore {
  /** The location, for messages. */
  readonly place: string
  readonly modules: ModuleStore
  /** @throws {@link StateInvalidError}, {@link StateUntrustedError} */
  read(): Promise<Edits>
  /** @throws {@link StateUnwritableError} */
  write(edits: Edits, modules: ReadonlyMap<string, ModuleBytes>): Promise<void>
}

const FILE = 'state.json'

/** Keeps edits for the lifetime of the process. */
export function editsInMemory(): EditStore {
  const modules = storeInMemory()
  return {
    place: 'in memory',
    modules,
    read: async () => NO_EDITS,
    async write(edits, added) {
      for (const [digest, module] of added) await modules.put(digest, module)
      await modules.keep(await digestsOf(edits))
    },
  }
}

/**
 * Keeps edits in a folder: `state.json`, and modules by digest. A completed write is durable; if the process is killed
 * during a write, the previous state remains. The content becomes code that runs, so only the process's user and root
 * may have write access.
 */
export function editsInFolder(folder: string): EditStore {
  const modules = storeInFolder(folder)
  const path = join(folder, FILE)
  /** The content that this process wrote or read last: two servers must not share a folder. */
  let known: string | undefined
  const problemWith = (paths: readonly string[]) => {
    const all = [folder, path, modules.place, ...paths]
    return all.map((each) => problemWithPath(each)).find((problem) => problem !== undefined)
  }
  const readText = () =>
    readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      const isFile = error.code === 'ENOTDIR'
      throw new StateInvalidError(folder, isFile ? 'it is not a folder' : error.message, { cause: error })
    })
  return {
    place: folder,
    modules,
    async read() {
      const problem = problemWith([])
      if (problem !== undefined) throw new StateUntrustedError(folder, problem)
      known = await readText()
      if (known === undefined) return NO_EDITS
      const edits = parseState(known)
      if ('problem' in edits) throw new StateInvalidError(folder, `${FILE}: ${edits.problem}`)
      const digests = [...(await digestsOf(edits))]
      const problemWithModule = problemWith(digests.map((digest) => join(modules.place, digest)))
      if (problemWithModule !== undefined) throw new StateUntrustedError(folder, problemWithModule)
      for (const digest of digests) await modules.get(digest)
      return edits
    },
    async write(edits, added) {
      const text = renderState(edits)
      if (text === known) return
      const problem = problemWith([])
      if (problem !== undefined) throw new StateUnwritableError(folder, problem)
      if ((await readText()) !== known)
        throw new StateUnwritableError(folder, 'another process has written to it')
      try {
        for (const [digest, module] of added) await modules.put(digest, module)
        await writeWhole(folder, FILE, text)
        known = text
      } catch (error) {
        throw new StateUnwritableError(folder, (error as Error).message, { cause: error })
      }
      // The edits are saved. Modules that cannot be removed now can be removed later.
      await modules.keep(await digestsOf(edits)).catch(() => undefined)
    },
  }
}

/** The digests of all modules, and of their detached signatures. */
export async function digestsOf({ plugins }: Edits): Promise<Set<string>> {
  const pace = new EventLoopYielder()
  const digests = new Set<string>()
  for (const { versions } of plugins.values()) {
    for (const { modules } of versions) {
      for (const { digest, bundle } of modules) {
        digests.add(digest)
        if (bundle !== undefined) digests.add(bundle)
      }
    }
    await pace.step()
  }
  return digests
}

/** Bytes of modules, by digest. */
export interface ModuleStore {
  /** @throws {@link StateInvalidError} if the module is missing or its bytes do not match. */
  get(digest: string): Promise<Uint8Array>
  put(digest: string, module: ModuleBytes): Promise<void>
  /** Removes all others. */
  keep(digests: ReadonlySet<string>): Promise<void>
}

/** Storage for the lifetime of the process. Modules of plug-ins that are loaded on demand stay in their files. */
function storeInMemory(): ModuleStore {
  const modules = new Map<string, ModuleBytes>()
  return {
    async get(digest) {
      const module = modules.get(digest)
      if (!module) throw new StateInvalidError('in memory', `module ${digest} is missing`)
      return bytesOf(module)
    },
    put: async (digest, module) => void modules.set(digest, module),
    async keep(digests) {
      const pace = new EventLoopYielder()
      for (const digest of modules.keys()) {
        if (!digests.has(digest)) modules.delete(digest)
        await pace.step()
      }
    },
  }
}

/** Modules in the folder `modules` of a state folder. @param folder - Created on demand. */
export function storeInFolder(folder: string): ModuleStore & { readonly place: string } {
  const place = join(folder, 'modules')
  return {
    place,
    async get(digest) {
      const bytes = await readFile(join(place, digest)).catch((error) => {
        throw new StateInvalidError(folder, `module ${digest}: ${error.message}`, { cause: error })
      })
      if ((await sha256InSlices(bytes)) === digest) return bytes
      throw new StateInvalidError(folder, `the bytes of module ${digest} do not match its digest`)
    },
    async put(digest, module) {
      const known = await readFile(join(place, digest)).catch(() => undefined) // missing: written below
      if (!known || (await sha256InSlices(known)) !== digest)
        await writeWhole(place, digest, await bytesOf(module))
    },
    async keep(digests) {
      const names = await readdir(place).catch(() => []) // not created yet
      const old = names.filter((name) => STATE_FILES.test(name) && !digests.has(name))
      await Promise.all(old.map((name) => rm(join(place, name), { force: true })))
    },
  }
}

/** File names of modules, and of partial writes left by a killed process. */
const STATE_FILES = /^(?:[\da-f]{64}|\.[\da-f]{64}\.[\da-f-]+)$/

/** Replaces a file atomically and durably: after a crash of the process or machine it is either old or new. */
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
    await directory.sync() // makes the rename durable
  } finally {
    await directory.close()
  }
}
