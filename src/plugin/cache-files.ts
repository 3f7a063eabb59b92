import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, readdir, readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CacheUntrustedError } from '../errors/errors.ts'
import { errorCode } from '../platform/system-errors.ts'
import { problemWithPath } from '../platform/trusted-path.ts'
import { CACHE_PARTS, parseAnswer, parseTag, sealedBytes } from './source/content-cache.ts'

/*
 * Upkeep of the cache folder. It sees only files that a cache writes, by their places and names, and follows no links: so a wrong
 * folder loses nothing.
 */

/** A file of the cache. */
export interface CacheFile {
  /**
   * `content`: modules, manifests and blobs; `request`, `tag` and `evidence`: see `CACHE_PARTS`; `module`: checked modules; `bytecode`:
   * Node's compile cache of this program; `leftover`: of a write that did not end.
   */
  readonly kind: keyof typeof CACHE_PARTS | 'module' | 'bytecode' | 'leftover'
  /** The reference of a tag, else the name of the file, which for content and evidence is a digest. */
  readonly name: string
  /** The digest to which a tag pointed. */
  readonly digest?: string
  readonly path: string
  readonly bytes: number
  /** In milliseconds since 1970, noted at most once a day. Bytecode: when it was compiled. */
  readonly usedAt: number
}

const HASH = '[\\da-f]{64}'

/** The folders of a cache, as patterns of their levels, and of the names in them. */
const PLACES: readonly {
  readonly kind: Exclude<CacheFile['kind'], 'leftover'>
  readonly folders: readonly RegExp[]
  readonly name: RegExp
}[] = [
  { kind: 'content', folders: [exactly(CACHE_PARTS.content)], name: exactly(HASH) },
  { kind: 'request', folders: [exactly(CACHE_PARTS.request)], name: exactly(`${HASH}\\.json`) },
  { kind: 'tag', folders: [exactly(CACHE_PARTS.tag)], name: exactly(`${HASH}\\.json`) },
  { kind: 'evidence', folders: [exactly(CACHE_PARTS.evidence)], name: exactly(HASH) },
  { kind: 'module', folders: [exactly('modules'), exactly('\\d{1,2}')], name: exactly(HASH) },
  // Named by Node.js, such as v24.1.0-x64-1234abcd-1000/0123abcd; while it is written, with a suffix.
  { kind: 'bytecode', folders: [exactly('v8'), /^v\d+\.\d+\.\d+-[\w.-]+$/], name: /^[\da-f]{8}(?:\.\w+)?$/ },
]

const LEFTOVER = exactly(`${HASH}(?:\\.json)?\\.[\\da-f-]{36}\\.tmp`)

function exactly(pattern: string): RegExp {
  return new RegExp(`^${pattern}$`)
}

/** Lists the files of a cache. A folder that does not exist has none. */
export async function listCache(folder: string): Promise<CacheFile[]> {
  const found: CacheFile[] = []
  for (const { kind, folders, name } of PLACES) {
    for (const path of await subfolders(folder, folders)) {
      for (const file of await namesIn(path, (entry) => entry.isFile())) {
        const isLeftover = kind !== 'bytecode' && LEFTOVER.test(file)
        if (!isLeftover && !name.test(file)) continue
        const described = await describe(isLeftover ? 'leftover' : kind, file, join(path, file))
        if (described) found.push(described)
      }
    }
  }
  return found
}

async function subfolders(folder: string, [pattern, ...deeper]: readonly RegExp[]): Promise<string[]> {
  if (!pattern) return [folder]
  const names = await namesIn(folder, (entry) => entry.isDirectory() && pattern.test(entry.name))
  const found = await Promise.all(names.map((name) => subfolders(join(folder, name), deeper)))
  return found.flat()
}

type Entry = { readonly name: string; isFile(): boolean; isDirectory(): boolean }

async function namesIn(folder: string, isWanted: (entry: Entry) => boolean): Promise<string[]> {
  const entries = await unlessGone(readdir(folder, { withFileTypes: true }))
  return (entries ?? []).filter(isWanted).map(({ name }) => name)
}

/** @returns undefined if another process has removed it. */
async function describe(kind: CacheFile['kind'], name: string, path: string): Promise<CacheFile | undefined> {
  const stat = await unlessGone(lstat(path))
  if (!stat) return undefined
  const file = { kind, name, path, bytes: stat.size, usedAt: Math.round(stat.mtimeMs) }
  const text = kind === 'tag' ? await unlessGone(readFile(path)) : undefined
  const tag = text && parseTag(text)
  return tag ? { ...file, name: tag.reference, digest: tag.digest } : file
}

/**
 * Checks the files of a cache, and removes those that are damaged. Node.js checks bytecode itself.
 *
 * @returns the damaged ones.
 * @throws `CacheUntrustedError` if one is in a folder to which other users can write.
 */
export async function verifyCache(files: readonly CacheFile[]): Promise<CacheFile[]> {
  const damaged: CacheFile[] = []
  for (const file of files) if ((await unlessGone(isIntact(file))) === false) damaged.push(file)
  await remove(damaged)
  return damaged
}

async function isIntact({ kind, name, path }: CacheFile): Promise<boolean> {
  switch (kind) {
    case 'content':
      return (await hashOf(path)) === name
    case 'request':
      return parseAnswer(await readFile(path)) !== undefined
    case 'tag':
      return parseTag(await readFile(path)) !== undefined
    case 'evidence':
    case 'module':
      return (await sealedBytes(await readFile(path))) !== undefined
    default:
      return true
  }
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

/** What is removed from a cache, besides leftovers. */
interface PruneOptions {
  /** Files that were not used for so long, in milliseconds. */
  readonly olderThanMs?: number | undefined
  /** The files that were not used for the longest time, as far as there are more bytes in all. */
  readonly maxBytes?: number | undefined
}

/** A write takes less time; older ones were left by a process that crashed. */
const LEFTOVER_MS = 3_600_000

/**
 * Removes files of a cache. Running processes are not disturbed: they fetch again what they need.
 *
 * @returns the removed ones.
 * @throws `CacheUntrustedError` if one is in a folder to which other users can write.
 */
export async function pruneCache(
  files: readonly CacheFile[],
  { olderThanMs = Number.POSITIVE_INFINITY, maxBytes = Number.POSITIVE_INFINITY }: PruneOptions,
): Promise<CacheFile[]> {
  const now = Date.now()
  const isOld = ({ kind, usedAt }: CacheFile) =>
    now - usedAt >= (kind === 'leftover' ? Math.min(LEFTOVER_MS, olderThanMs) : olderThanMs)
  const removed = files.filter(isOld)
  let bytes = 0
  for (const file of files.filter((each) => !isOld(each)).sort((a, b) => b.usedAt - a.usedAt)) {
    bytes += file.bytes
    if (bytes > maxBytes) removed.push(file)
  }
  await remove(removed)
  return removed
}

/** A link in place of a folder could lead to other files, so only folders of this user are changed. */
async function remove(files: readonly CacheFile[]): Promise<void> {
  for (const folder of new Set(files.map(({ path }) => dirname(path)))) {
    const problem = problemWithPath(folder)
    if (problem !== undefined) throw new CacheUntrustedError(problem)
  }
  for (const { path } of files) await rm(path, { force: true })
}

/** @returns undefined if the file does not exist, or no longer. */
async function unlessGone<Value>(work: Promise<Value>): Promise<Value | undefined> {
  try {
    return await work
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}
