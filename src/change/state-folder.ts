import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { StateInvalidError, StateUnwritableError } from '../errors.ts'
import { type Changes, NO_CHANGES, type PluginChange, type RouteChange } from './changes.ts'
import { type ModuleStore, storeInFolder, storeInMemory, writeWhole } from './module-store.ts'

/** Where changes are kept. */
export interface ChangeStore {
  readonly modules: ModuleStore
  /** @throws {@link StateInvalidError} */
  read(): Promise<Changes>
  /** @throws {@link StateUnwritableError} */
  write(changes: Changes, modules: ReadonlyMap<string, Uint8Array>): Promise<void>
}

/** Of `state.json`: one that is changed so that older programs cannot read it gets the next number. */
const FORMAT = 1

const FILE = 'state.json'

/** Keeps them for as long as the process lives. */
export function changesInMemory(): ChangeStore {
  const modules = storeInMemory()
  return {
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
 * done; a process that is killed meanwhile leaves what was there before.
 */
export function changesInFolder(folder: string): ChangeStore {
  const modules = storeInFolder(folder)
  const path = join(folder, FILE)
  /** What we know to be there: two servers cannot have the same folder. */
  let known: string | undefined
  const readText = () =>
    readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw new StateInvalidError(folder, error.message, { cause: error })
    })
  return {
    modules,
    async read() {
      known = await readText()
      if (known === undefined) return NO_CHANGES
      const changes = parse(known, folder)
      for (const digest of digestsOf(changes)) await modules.get(digest)
      return changes
    },
    async write(changes, added) {
      const text = `${JSON.stringify(toJson(changes), null, 2)}\n`
      if (text === known) return
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

function toJson({ plugins, routes }: Changes): object {
  return {
    format: FORMAT,
    plugins: [...plugins].map(([name, plugin]) => ({ name, ...plugin })),
    routes: [...routes].map(([id, route]) => ({ id, ...route })),
  }
}

/** What was written by hand is checked as far as it leads to files; the rest is checked when it is used. */
function parse(text: string, folder: string): Changes {
  const refuse = (reason: string) => new StateInvalidError(folder, `${FILE}: ${reason}`)
  let state: State
  try {
    state = JSON.parse(text)
  } catch (error) {
    throw refuse((error as Error).message)
  }
  if (state?.format !== FORMAT) throw refuse(`its format is not ${FORMAT}, which this version reads`)
  try {
    const changes = {
      plugins: new Map(state.plugins.map(({ name, ...plugin }) => [name, plugin])),
      routes: new Map(state.routes.map(({ id, ...route }) => [id, route])),
    }
    for (const digest of digestsOf(changes)) {
      if (!/^[\da-f]{64}$/.test(digest)) throw refuse('a module has a digest that is none')
    }
    for (const { traffic, versions } of changes.plugins.values()) {
      const isThere = (digest: string) => versions.some((version) => version.digest === digest)
      if (!traffic.every(({ digest }) => isThere(digest))) throw refuse('a version is missing')
    }
    return changes
  } catch (error) {
    if (error instanceof StateInvalidError) throw error
    throw refuse('it is not what was written')
  }
}

interface State {
  readonly format: number
  readonly plugins: readonly (PluginChange & { readonly name: string })[]
  readonly routes: readonly (RouteChange & { readonly id: string })[]
}
