import { randomUUID } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { deserialize, serialize } from 'node:v8'
import { makeFolder } from '../platform/make-folder.ts'
import { boundOptimiser } from '../platform/node-workarounds.ts'
import { problemWithPath } from '../platform/trusted-path.ts'
import type {
  Admit,
  CheckedForms,
  LoadedModule,
  ModuleForms,
  ModuleJob,
  ResettableForm,
} from './load-module.ts'
import { type PackedFacts, packFacts, unpackFacts } from './module-facts.ts'
import { markUsed, sealedBytes } from './source/content-cache.ts'
import { sha256, sha256InSlices } from './source/digest.ts'

/*
 * Modules that were checked and rewritten are kept on disk, so that the next start need not read their code. What V8 compiles
 * cannot be kept: Node.js has no interface for that.
 */

/** Reading smaller ones again takes about as long as reading what was kept. */
const LEAST_BYTES = 16_384

/** Maximum bytes that are kept of one module. */
const MAX_BYTES = 16_777_216

/** What is kept is in as many folders. Each has its share of the limit. */
const FOLDERS = 16

/** Maximum bytes of one folder, 512 MiB in all. Beyond that the least recently used files are removed. */
const MAX_FOLDER_BYTES = 33_554_432

/** What is kept of a module. */
interface KeptModule extends Pick<LoadedModule, 'merge' | 'needsProcess' | 'isResettableKnown'> {
  readonly facts: PackedFacts
  readonly checked: CheckedForms
}

/**
 * The file in which a module is kept.
 *
 * @param folder - Of the caches.
 * @param digest - SHA-256 of the module's bytes, in hex.
 * @returns undefined if it is not worthwhile.
 */
export function cachedModuleFile(
  folder: string,
  digest: string,
  bytes: number,
  { name: _name, ...job }: Omit<ModuleJob, 'needsModule' | 'moduleCacheOf'>,
): string | undefined {
  if (bytes < LEAST_BYTES || BUILD === undefined) return undefined
  const key = sha256(JSON.stringify([BUILD, process.version, process.arch, digest, job]))
  return join(folder, 'modules', `${Number.parseInt(key.slice(0, 8), 16) % FOLDERS}`, key)
}

/** Tells builds of this package apart; undefined while it runs from its sources. */
const BUILD = buildOf(fileURLToPath(import.meta.url))

function buildOf(file: string): string | undefined {
  if (file.endsWith('.ts')) return undefined
  const { size, mtimeMs } = statSync(file)
  return `${file} ${size} ${mtimeMs}`
}

/**
 * Compiles a module from what was kept of it.
 *
 * @param isServing - Whether requests are served meanwhile.
 * @param admit - See `loadModule`.
 * @returns undefined if nothing usable was kept. Nothing is read from a folder to which other users can write: it would not be
 * checked.
 * @throws the errors of `admit`.
 */
export async function loadCachedModule(
  file: string,
  isServing: boolean,
  admit: Admit = () => undefined,
): Promise<LoadedModule | undefined> {
  const kept = await readKept(file, isServing).catch(() => undefined) // it is compiled again, and kept anew
  if (!kept) return undefined
  const { facts, checked, ...rest } = kept
  const { forms, types } = checked
  await admit(types)
  boundOptimiser()
  try {
    return {
      ...rest,
      facts: await unpackFacts(facts),
      module: await compile(forms.module),
      fewExports: forms.fewExports && (await compile(forms.fewExports)),
      resettable: forms.resettable && (await compileResettable(forms.resettable)),
    }
  } catch {
    return undefined
  }
}

async function readKept(file: string, isServing: boolean): Promise<KeptModule | undefined> {
  if (problemWithPath(file) !== undefined) return undefined
  const body = await sealedBytes(isServing ? await readFile(file) : readFileSync(file))
  if (!body) return undefined // damaged
  void markUsed(file)
  return deserialize(body)
}

function compile(bytes: Uint8Array): Promise<WebAssembly.Module> {
  return WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>)
}

async function compileResettable({ bytes, ...rest }: ResettableForm): Promise<LoadedModule['resettable']> {
  return { module: await compile(bytes), ...rest }
}

/**
 * Keeps a module that was compiled. Does nothing if that is not possible: the next start then takes longer.
 *
 * @param file - See {@link cachedModuleFile}.
 */
export async function cacheModule(
  file: string,
  { facts, checked, merge, needsProcess, isResettableKnown }: LoadedModule,
): Promise<void> {
  if (!checked || sizeOf(checked.forms) > MAX_BYTES || problemWithPath(file) !== undefined) return
  const kept: KeptModule = { facts: packFacts(facts), checked, merge, needsProcess, isResettableKnown }
  const body = serialize(kept)
  const temporary = `${file}.${randomUUID()}.tmp`
  try {
    makeFolder(dirname(file), 0o700)
    const digest = Buffer.from(await sha256InSlices(body), 'hex')
    await writeFile(temporary, [digest, body], { flag: 'wx', mode: 0o600 })
    await rename(temporary, file) // atomic: readers see all of it or nothing
    await removeOldest(dirname(file))
  } catch {
    await rm(temporary, { force: true }).catch(() => undefined)
  }
}

function sizeOf({ module, fewExports, resettable }: ModuleForms): number {
  return module.length + (fewExports?.length ?? 0) + (resettable?.bytes.length ?? 0)
}

/** Removes the files of a folder that were not used for the longest time, as far as there are too many bytes. */
async function removeOldest(folder: string): Promise<void> {
  const files = await Promise.all(
    (await readdir(folder)).map(async (name) => {
      const path = join(folder, name)
      const { size, mtimeMs } = await stat(path)
      return { path, size, mtimeMs }
    }),
  )
  let bytes = 0
  for (const { path, size } of files.sort((a, b) => b.mtimeMs - a.mtimeMs)) {
    bytes += size
    if (bytes > MAX_FOLDER_BYTES) await rm(path, { force: true })
  }
}
