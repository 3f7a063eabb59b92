import { randomUUID } from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import { DigestMismatchError, DownloadTimeoutError, DownloadUnreachableError } from '../../errors/errors.ts'
import { makeFolder } from '../../platform/node-workarounds.ts'
import { problemWithPath } from '../../platform/trusted-path.ts'
import { sha256, sha256InSlices } from './digest.ts'
import { type DownloadOptions, download } from './download.ts'
import { parseDigest, showUrl } from './url.ts'

export interface CachedDownloadOptions extends DownloadOptions {
  /** SHA-256 in lower-case hex: no other bytes are returned, and none are downloaded that are in the cache. */
  readonly digest?: string | undefined
  /** Nothing is cached without it. Made when needed. */
  readonly cacheFolder?: string | undefined
}

export interface CachedDownload {
  readonly bytes: Uint8Array
  /** For people: the copy is from the cache since the server cannot be reached, or the cache cannot be written. */
  readonly warnings: readonly string[]
}

/** Where downloads are cached: `$XDG_CACHE_HOME/wasm-serve`, or `~/.cache/wasm-serve`. */
export function defaultCacheFolder(environment: Readonly<Record<string, string | undefined>>): string {
  const { XDG_CACHE_HOME: folder = '' } = environment
  // The XDG specification has relative paths ignored.
  return join(isAbsolute(folder) ? folder : join(homedir(), '.cache'), 'wasm-serve')
}

/**
 * Downloads through a cache on disk. With a digest the cache comes first and the network is asked only for what it
 * lacks; without, the network comes first and the cache helps when it cannot be reached: only if the method is GET, for
 * the answers to others are good once. Entries are checked when they are read; a damaged one is removed. Where other users
 * could write to the cache, only what a digest names is taken from it, and nothing is kept.
 *
 * @throws {@link DigestMismatchError} if the server has other bytes than the digest names; they are not kept.
 * @throws what `download` throws, if the cache cannot help.
 */
export async function downloadCached(url: URL, options: CachedDownloadOptions = {}): Promise<CachedDownload> {
  const { digest, cacheFolder } = options
  const warnings: string[] = []
  const cache = cacheFolder === undefined ? undefined : new Cache(cacheFolder, warnings)
  const pinned = digest === undefined ? undefined : await cache?.read(digest)
  if (pinned) return { bytes: pinned, warnings }

  const isRepeatable = (options.method ?? 'GET') === 'GET'
  const known = digest === undefined && isRepeatable ? await cache?.lookUp(url, options) : undefined
  try {
    const answer = await download(url, { ...options, etag: known?.etag })
    if (!answer && known) return { bytes: known.bytes, warnings }
    if (!answer) throw new DownloadUnreachableError(showUrl(url), 'the server sent no bytes')
    const actual = await sha256InSlices(answer.bytes)
    if (digest !== undefined && actual !== digest) throw new DigestMismatchError(showUrl(url), digest, actual)
    if (isRepeatable || digest !== undefined)
      await cache?.write(url, options, answer.bytes, { digest: actual, etag: answer.etag })
    return { bytes: answer.bytes, warnings }
  } catch (error) {
    if (!known || !isOffline(error)) throw error
    return { bytes: known.bytes, warnings: [...warnings, `${error.message}; using the cached copy`] }
  }
}

function isOffline(error: unknown): error is Error {
  return error instanceof DownloadUnreachableError || error instanceof DownloadTimeoutError
}

/** What was behind a URL when it was last asked. */
interface Entry {
  readonly digest: string
  readonly etag: string | undefined
}

/**
 * Bytes are in `sha256/<digest>`, and what a URL led to in `requests/<digest of the request>.json`: nothing of a URL or
 * a header, which may be secret, is written.
 */
class Cache {
  readonly #folder: string
  readonly #warnings: string[]

  constructor(folder: string, warnings: string[]) {
    this.#folder = folder
    this.#warnings = warnings
  }

  async read(digest: string): Promise<Uint8Array | undefined> {
    const file = this.#bytesFile(digest)
    const bytes = await this.#readFile(file)
    if (!bytes || (await sha256InSlices(bytes)) === digest) return bytes
    await rm(file, { force: true }).catch((error) => this.#warn(error))
    return undefined
  }

  async lookUp(url: URL, request: DownloadOptions): Promise<(Entry & { bytes: Uint8Array }) | undefined> {
    if (!this.#isTrusted(url, request)) return undefined
    const text = await this.#readFile(this.#entryFile(url, request))
    const entry = text && parseEntry(text)
    const bytes = entry && (await this.read(entry.digest))
    return bytes && { ...entry, bytes }
  }

  async write(url: URL, request: DownloadOptions, bytes: Uint8Array, entry: Entry): Promise<void> {
    if (!this.#isTrusted(url, request)) return
    try {
      await replaceFile(this.#folder, 'sha256', this.#bytesFile(entry.digest), bytes)
      await replaceFile(this.#folder, 'requests', this.#entryFile(url, request), JSON.stringify(entry))
    } catch (error) {
      this.#warn(error)
    }
  }

  /** Who could write there could have the record of a URL lead to a module of his. */
  #isTrusted(url: URL, request: DownloadOptions): boolean {
    const problem =
      problemWithPath(this.#entryFile(url, request)) ?? problemWithPath(join(this.#folder, 'sha256'))
    const warning = `the download cache is not used: ${problem}`
    if (problem !== undefined && !this.#warnings.includes(warning)) this.#warnings.push(warning)
    return problem === undefined
  }

  #bytesFile(digest: string): string {
    return join(this.#folder, 'sha256', digest)
  }

  #entryFile(url: URL, { method, headers }: DownloadOptions): string {
    return join(this.#folder, 'requests', `${sha256(JSON.stringify([url.href, method, headers]))}.json`)
  }

  async #readFile(file: string): Promise<Uint8Array | undefined> {
    try {
      return await readFile(file)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') this.#warn(error)
      return undefined
    }
  }

  /** A cache that does not work makes starts slower, no more. */
  #warn(error: unknown): void {
    this.#warnings.push(`the download cache does not work: ${(error as Error).message}`)
  }
}

/** Undefined if somebody else wrote it. */
function parseEntry(text: Uint8Array): Entry | undefined {
  const entry = parseObject(Buffer.from(text).toString())
  const digest = parseDigest(String(entry?.digest))
  if (digest === undefined) return undefined
  return { digest, etag: typeof entry?.etag === 'string' ? entry.etag : undefined }
}

function parseObject(text: string): Partial<Record<string, unknown>> | undefined {
  try {
    return JSON.parse(text) ?? undefined
  } catch {
    return undefined // damaged: the network is asked as if it were not there
  }
}

/** Readers see the old content or the new, never a part. */
async function replaceFile(folder: string, part: string, file: string, content: Uint8Array | string) {
  makeFolder(resolve(folder, part), 0o700)
  const temporary = `${file}.${randomUUID()}.tmp`
  try {
    await writeFile(temporary, content, { flag: 'wx', mode: 0o600 })
    await rename(temporary, file)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}
