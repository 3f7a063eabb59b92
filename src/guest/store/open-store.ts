import { StoreInvalidError } from '../../errors/errors.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import { openLmdbStore } from './lmdb.ts'
import { openMemoryStore } from './memory.ts'
import { openRedisStore } from './redis.ts'
import { redisUrlProblem } from './redis-url.ts'
import type { Store } from './store.ts'

export interface StoreSettings {
  /** Maximum bytes of a store in memory. */
  readonly maxBytes: number
  /** Time limit of an operation over the network. */
  readonly timeoutMs: number
  readonly log?: Log
  /** Whether the store must exist: otherwise `lmdb` creates one. */
  readonly mustExist?: boolean
  /** Whether a store over the network is opened while it cannot be reached. Its operations fail until it can be. */
  readonly mayBeAway?: boolean | undefined
  /** Whether the whole `lmdb` file is read before it is mapped, not only its top. */
  readonly isReadWholly?: boolean
}

/**
 * Opens the store that a URL names: `memory:`, `lmdb:FOLDER`, `redis://HOST` or `rediss://HOST`.
 *
 * @throws {@link StoreInvalidError} if the URL is invalid, or the store cannot be opened.
 * @throws {@link PackageMissingError} {@link StoreUnavailableError}
 */
export async function openStore(
  url: string,
  { maxBytes, timeoutMs, log, mustExist, mayBeAway, isReadWholly }: StoreSettings,
): Promise<Store> {
  const [, scheme = '', rest = ''] = /^([a-z]+):(.*)$/s.exec(url) ?? []
  if (scheme === 'memory' && rest === '') return openMemoryStore({ maxBytes })
  if (scheme === 'lmdb' && rest !== '') return openLmdbStore({ folder: rest, mustExist, isReadWholly })
  if (scheme === 'redis' || scheme === 'rediss')
    return openRedisStore({ url: parseRedisUrl(scheme, url), timeoutMs, mayBeAway, log })
  throw new StoreInvalidError(
    scheme ? `${scheme}:` : '(no scheme)',
    'it must be memory:, lmdb:FOLDER or redis://HOST',
  )
}

/** The URL of a store without user and password. */
export function nameOfStore(url: string): string {
  const [, scheme = ''] = /^([a-z]+):/.exec(url) ?? []
  if (scheme !== 'redis' && scheme !== 'rediss') return url
  const { protocol, host, pathname } = parseRedisUrl(scheme, url)
  return `${protocol}//${host}${pathname}`
}

/** @throws {@link StoreInvalidError} */
function parseRedisUrl(scheme: string, url: string): URL {
  const problem = redisUrlProblem(url)
  if (problem === undefined) return new URL(url)
  throw new StoreInvalidError(`${scheme}:`, `it ${problem}`)
}
