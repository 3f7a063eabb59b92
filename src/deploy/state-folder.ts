import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { StateInvalidError, StateUntrustedError, StateUnwritableError } from '../errors/errors.ts'
import { problemWithPath } from '../platform/trusted-path.ts'
import { type Changes, NO_CHANGES } from './changes.ts'
import { type ModuleStore, storeInFolder, storeInMemory, writeWhole } from './module-store.ts'
import { parseState, renderState } from './state-json.ts'

/** Where changes are kept. */
export interface ChangeStore {
  /** For messages. */
  readonly place: string
  readonly modules: ModuleStore
  /** @throws {@link StateInvalidError}, {@link StateUntrustedError} */
  read(): Promise<Changes>
  /** @throws {@link StateUnwritableError} */
  write(changes: Changes, modules: ReadonlyMap<string, Uint8Array>): Promise<void>
}

const FILE = 'state.json'

/** Keeps them for as long as the process lives. */
export function changesInMemory(): ChangeStore {
  const modules = storeInMemory()
  return {
    place: 'in memory',
    modules,
    read: async () => NO_CHANGES,
    async write(changes, added) {
      for (const [digest, bytes] of added) await modules.put(digest, bytes)
      await modules.keep(digestsOf(changes))
    },
  }
}

/**
 * Keeps them in a folder: `state.json`, and modules by their digests. All that is written is on the disk when it is
 * done; a process that is killed meanwhile leaves what was there before. What is there becomes code that runs, so nobody
 * else than the process's user, and root, may be able to write there.
 */
export function changesInFolder(folder: string): ChangeStore {
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
      if (known === undefined) return NO_CHANGES
      const changes = parseState(known)
      if ('problem' in changes) throw new StateInvalidError(folder, `${FILE}: ${changes.problem}`)
      const digests = [...digestsOf(changes)]
      const problemWithModule = problemWith(digests.map((digest) => join(modules.place, digest)))
      if (problemWithModule !== undefined) throw new StateUntrustedError(folder, problemWithModule)
      for (const digest of digests) await modules.get(digest)
      return changes
    },
    async write(changes, added) {
      const text = renderState(changes)
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
      await modules.keep(digestsOf(changes)).catch(() => undefined)
    },
  }
}

function digestsOf({ plugins }: Changes): Set<string> {
  return new Set(
    [...plugins.values()].flatMap(({ versions }) =>
      versions.flatMap(({ modules }) => modules.map(({ digest }) => digest)),
    ),
  )
}
