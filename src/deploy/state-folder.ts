import { randomUUID } from 'node:crypto'
import { open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StateInvalidError, StateUntrustedError, StateUnwritableError } from '../errors/errors.ts'
import { makeFolder } from '../platform/node-workarounds.ts'
import { problemWithPath } from '../platform/trusted-path.ts'
import { sha256InSlices } from '../plugin/source/digest.ts'
import { type Edits, NO_EDITS } from './edits.ts'
import { parseState, renderState } from './state-json.ts'

/** Where edits are kept. */
export interface EditStore {
  /** For messages. */
  readonly place: string
  readonly modules: ModuleStore
  /** @throws {@link StateInvalidError}, {@link StateUntrustedError} */
  read(): Promise<Edits>
  /** @throws {@link StateUnwritableError} */
  write(edits: Edits, modules: ReadonlyMap<string, Uint8Array>): Promise<void>
}

const FILE = 'state.json'

/** Keeps them for as long as the process lives. */
export function editsInMemory(): EditStore {
  const modules = storeInMemory()
  return {
    place: 'in memory',
    modules,
    read: async () => NO_EDITS,
    async write(edits, added) {
      for (const [digest, bytes] of added) await modules.put(digest, bytes)
      await modules.keep(digestsOf(edits))
    },
  }
}

/**
 * Keeps them in a folder: `state.json`, and modules by their digests. All that is written is on the disk when it is
 * done; a process that is killed meanwhile leaves what was there before. What is there becomes code that runs, so nobody
 * else than the process's user, and root, may be able to write there.
 */
export function editsInFolder(folder: string): EditStore {
  const modules = storeInFolder(folder)
  const path = join(folder, FILE)
  /** What we know to be there: two servers cannot have the same folder. */
  let known: string | undefined
  const problemWith = (paths: readonly string[]) => {
    const all = [folder, path, modules.place, ...paths]
    return all.map((each) => problemWithPath(each)).find((problem) => problem !== undefined)
  }
  const readText = () =>
    readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw new StateInvalidError(folder, error.message, { cause: error })
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
      const digests = [...digestsOf(edits)]
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
        for (const [digest, bytes] of added) await modules.put(digest, bytes)
        await writeWhole(folder, FILE, text)
        known = text
      } catch (error) {
        throw new StateUnwritableError(folder, (error as Error).message, { cause: error })
      }
      // It is kept, whatever becomes of these: what cannot be removed now can be later.
      await modules.keep(digestsOf(edits)).catch(() => undefined)
    },
  }
}

function digestsOf({ plugins }: Edits): Set<string> {
  return new Set(
    [...plugins.values()].flatMap(({ versions }) =>
      versions.flatMap(({ modules }) => modules.map(({ digest }) => digest)),
    ),
  )
}

/** The bytes of modules, by their digests. */
interface ModuleStore {
  /** @throws {@link StateInvalidError} if it has others, or none. */
  get(digest: string): Promise<Uint8Array>
  put(digest: string, bytes: Uint8Array): Promise<void>
  /** Forgets all others. */
  keep(digests: ReadonlySet<string>): Promise<void>
}

/** One that ends with the process. */
function storeInMemory(): ModuleStore {
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
function storeInFolder(folder: string): ModuleStore & { readonly place: string } {
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
      const old = names.filter((name) => STATE_FILES.test(name) && !digests.has(name))
      await Promise.all(old.map((name) => rm(join(place, name), { force: true })))
    },
  }
}

/** Modules, and what was left of one when the process was killed. */
const STATE_FILES = /^(?:[\da-f]{64}|\.[\da-f]{64}\.[\da-f-]+)$/

/** Writes a file so that after a crash of the process or the machine it is there as it was, or as it is now. */
async function writeWhole(folder: string, name: string, content: Uint8Array | string): Promise<void> {
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
