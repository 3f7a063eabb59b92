import { randomUUID } from 'node:crypto'
import { readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { parseObject } from '../../platform/json-text.ts'
import { makeFolder } from '../../platform/make-folder.ts'
import { problemWithPath } from '../../platform/trusted-path.ts'
import { sha256, sha256InSlices } from './digest.ts'
import { parseDigest } from './url.ts'

/**
 * A cache on disk of what comes from the network. It is shared by all processes of a user. Each file is replaced atomically, so a
 * crash leaves at most a file that ends in `.tmp`. What is read is verified; a damaged file is removed and counts as missing.
 *
 * If other users can write to the folder, only content with a known digest is read, and nothing is stored: an attacker could make
 * a record point to another module. No method throws: a cache that does not work only makes starts slower, and adds a warning.
 */
export interface ContentCache {
  /** The bytes with this SHA-256 in lower-case hex. */
  read(digest: string): Promise<Uint8Array | undefined>
  /** Stores bytes. @param digest - Their SHA-256 in lower-case hex; the caller has checked it. */
  write(digest: string, bytes: Uint8Array): Promise<void>
  /** The last answer to a request. @param key - The request as text; only its digest is stored, because it may be secret. */
  request(key: string): Promise<CachedAnswer | undefined>
  writeRequest(key: string, answer: CachedAnswer): Promise<void>
  /** The digest that a tag had when a registry was last asked. @param reference - `registry/repository:tag`. */
  tag(reference: string): Promise<CachedTag | undefined>
  writeTag(reference: string, tag: CachedTag): Promise<void>
  /** What was kept for a manifest's signatures. The caller verifies it again. @param digest - The manifest's SHA-256 in hex. */
  evidence(digest: string): Promise<Uint8Array | undefined>
  writeEvidence(digest: string, bytes: Uint8Array): Promise<void>
}

export interface CachedAnswer {
  /** SHA-256 of the bytes in lower-case hex. */
  readonly digest: string
  readonly etag: string | undefined
}

export interface CachedTag {
  /** SHA-256 of the manifest in lower-case hex. */
  readonly digest: string
  /** When the registry said so, in milliseconds since 1970. */
  readonly at: number
}

/**
 * The folders of the cache:
 *
 * - `sha256/<digest>`: modules, manifests and blobs.
 * - `requests/<digest of the request>.json`: the answer to a request, without its URL and headers, which may be secret.
 * - `tags/<digest of the reference>.json`: the digest of a tag.
 * - `evidence/<digest of a manifest>`: what was kept for its signatures, after the digest of these bytes (32 bytes).
 */
export const CACHE_PARTS = {
  content: 'sha256',
  request: 'requests',
  tag: 'tags',
  evidence: 'evidence',
} as const

/**
 * Opens the cache in a folder, which is created on demand.
 *
 * @param warnings - Receives each problem once.
 */
export function openContentCache(folder: string, warnings: string[]): ContentCache {
  return new FolderCache(folder, warnings)
}

class FolderCache implements ContentCache {
  readonly #folder: string
  readonly #warnings: string[]

  constructor(folder: string, warnings: string[]) {
    this.#folder = folder
    this.#warnings = warnings
  }

  async read(digest: string): Promise<Uint8Array | undefined> {
    const file = this.#file('content', digest)
    const bytes = await this.#readFile(file)
    if (!bytes || (await sha256InSlices(bytes)) === digest) return bytes
    return this.#remove(file)
  }

  write(digest: string, bytes: Uint8Array): Promise<void> {
    return this.#replace(this.#file('content', digest), bytes)
  }

  async request(key: string): Promise<CachedAnswer | undefined> {
    return this.#readRecord(this.#file('request', `${sha256(key)}.json`), parseAnswer)
  }

  writeRequest(key: string, { digest, etag }: CachedAnswer): Promise<void> {
    return this.#replace(this.#file('request', `${sha256(key)}.json`), JSON.stringify({ digest, etag }))
  }

  async tag(reference: string): Promise<CachedTag | undefined> {
    const tag = await this.#readRecord(this.#file('tag', `${sha256(reference)}.json`), parseTag)
    return tag?.reference === reference ? { digest: tag.digest, at: tag.at } : undefined
  }

  writeTag(reference: string, { digest, at }: CachedTag): Promise<void> {
    const record = JSON.stringify({ reference, digest, at })
    return this.#replace(this.#file('tag', `${sha256(reference)}.json`), record)
  }

  async evidence(digest: string): Promise<Uint8Array | undefined> {
    const file = this.#file('evidence', digest)
    const content = this.#isTrusted(file) ? await this.#readFile(file) : undefined
    return content && ((await sealedBytes(content)) ?? this.#remove(file))
  }

  async writeEvidence(digest: string, bytes: Uint8Array): Promise<void> {
    const seal = Buffer.from(await sha256InSlices(bytes), 'hex')
    return this.#replace(this.#file('evidence', digest), Buffer.concat([seal, bytes]))
  }

  async #readRecord<Value>(
    file: string,
    parse: (text: Uint8Array) => Value | undefined,
  ): Promise<Value | undefined> {
    const text = this.#isTrusted(file) ? await this.#readFile(file) : undefined
    return text && (parse(text) ?? this.#remove(file))
  }

  async #readFile(file: string): Promise<Uint8Array | undefined> {
    try {
      const bytes = await readFile(file)
      await markUsed(file)
      return bytes
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') this.#warn(error)
      return undefined
    }
  }

  async #replace(file: string, content: Uint8Array | string): Promise<void> {
    if (!this.#isTrusted(file)) return
    await replaceFile(file, content).catch((error) => this.#warn(error))
  }

  async #remove(file: string): Promise<undefined> {
    await rm(file, { force: true }).catch((error) => this.#warn(error))
    return undefined
  }

  #isTrusted(file: string): boolean {
    const problem = problemWithPath(file) ?? problemWithPath(this.#file('content', '.'))
    if (problem !== undefined) this.#add(`the download cache is not used: ${problem}`)
    return problem === undefined
  }

  #file(part: keyof typeof CACHE_PARTS, name: string): string {
    return join(this.#folder, CACHE_PARTS[part], name)
  }

  #warn(error: unknown): void {
    this.#add(`the download cache does not work: ${(error as Error).message}`)
  }

  #add(warning: string): void {
    if (!this.#warnings.includes(warning)) this.#warnings.push(warning)
  }
}

/** A record of `requests/`; undefined if it is damaged. */
export function parseAnswer(text: Uint8Array): CachedAnswer | undefined {
  const entry = parseObject(text)
  const digest = parseDigest(entry?.digest)
  if (digest === undefined) return undefined
  return { digest, etag: typeof entry?.etag === 'string' ? entry.etag : undefined }
}

/** A record of `tags/`; undefined if it is damaged. */
export function parseTag(text: Uint8Array): (CachedTag & { readonly reference: string }) | undefined {
  const { reference, digest: written, at } = parseObject(text) ?? {}
  const digest = parseDigest(written)
  if (typeof reference !== 'string' || digest === undefined || typeof at !== 'number') return undefined
  return { reference, digest, at }
}

const SEAL_BYTES = 32

/** The bytes after their own digest; undefined if they are damaged. */
export async function sealedBytes(content: Uint8Array): Promise<Uint8Array | undefined> {
  const bytes = content.subarray(SEAL_BYTES)
  const seal = Buffer.from(content.subarray(0, SEAL_BYTES)).toString('hex')
  return seal === (await sha256InSlices(bytes)) ? bytes : undefined
}

/** A file that is used is marked as such, at most so often. */
const MARK_AGAIN_MS = 86_400_000

/** Notes the use of a cached file in its modification time, by which unused files are found. It may have been removed meanwhile. */
export async function markUsed(file: string): Promise<void> {
  const now = new Date()
  try {
    const { mtimeMs } = await stat(file)
    if (now.getTime() - mtimeMs > MARK_AGAIN_MS) await utimes(file, now, now)
  } catch {
    // It then counts as unused since its last mark.
  }
}

/** Atomic: readers see the old content or the new, also after a crash of the system. */
async function replaceFile(file: string, content: Uint8Array | string): Promise<void> {
  makeFolder(dirname(resolve(file)), 0o700)
  const temporary = `${file}.${randomUUID()}.tmp`
  try {
    await writeFile(temporary, content, { flag: 'wx', mode: 0o600, flush: true })
    await rename(temporary, file)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined) // the first error says more
    throw error
  }
}
