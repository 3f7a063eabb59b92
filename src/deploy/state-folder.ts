import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { StateInvalidError, StateUntrustedError, StateUnwritableError } from '../errors/errors.ts'
import { problemWithPath } from '../platform/trusted-path.ts'
import { type Edits, NO_EDITS } from './edits.ts'
import { type ModuleStore, storeInFolder, storeInMemory, writeWhole } from './module-store.ts'
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
