import { isUtf8 } from 'node:buffer'
import { StoreFullError, StoreUnavailableError } from '../../errors/errors.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import { RedisConnection } from './redis-connection.ts'
import {
  checkKey,
  checkList,
  checkTtl,
  checkValue,
  decodeNamespace,
  type KeyPage,
  keySpace,
  type SetOptions,
  type Store,
  type StoreEntry,
  type StoreFault,
} from './store.ts'

interface RedisStoreSettings {
  /** `redis://` or, for TLS, `rediss://`, with user, password and database number if needed. */
  readonly url: URL
  /** Time limit of an operation. */
  readonly timeoutMs: number
  /** Whether a server that cannot be reached is no reason to throw. */
  readonly mayBeAway?: boolean | undefined
  /** Logs when the server is lost and when it is back. */
  readonly log?: Log | undefined
}

/**
 * A store in Redis (6.2 or later) or Valkey. A write is acknowledged when the server has answered; its durability
 * depends on the server's configuration. Operations fail within their time limit, and work again when the server does.
 *
 * @throws {@link PackageMissingError}
 * @throws {@link StoreUnavailableError} if the server is unreachable or refuses the login, unless it may.
 */
export async function openRedisStore({ url, timeoutMs, mayBeAway, log }: RedisStoreSettings): Promise<Store> {
  const name = `${url.protocol}//${url.host}${url.pathname}`
  const redis = await loadPackage(name, '@redis/client', () => import('@redis/client'))
  const connection = new RedisConnection(redis, { url: url.href, name, timeoutMs, log })
  try {
    await connection.ready()
  } catch (error) {
    if (!mayBeAway) {
      await connection.close()
      throw error
    }
  }
  return new RedisStore(name, connection)
}

class RedisStore implements Store {
  readonly kind = 'redis'
  readonly sync = 'none'
  readonly #name: string
  readonly #connection: RedisConnection

  constructor(name: string, connection: RedisConnection) {
    this.#name = name
    this.#connection = connection
  }

  async get(namespace: string, key: string): Promise<Uint8Array | undefined> {
    checkKey(key)
    const { space } = redisKeys(namespace)
    const found = await this.#run(['GET', space + key])
    // The reply is a view of the socket's buffer.
    return found instanceof Uint8Array ? new Uint8Array(found) : undefined
  }

  async set(namespace: string, key: string, value: Uint8Array, options: SetOptions = {}): Promise<void> {
    const { space, keys } = entry(namespace, key)
    await this.#eval(SET, keys, [space, key, ...valueArguments(value, options)])
  }

  async delete(namespace: string, key: string): Promise<boolean> {
    const { space, keys } = entry(namespace, key)
    return (await this.#eval(DELETE, keys, [space, key])) === 1
  }

  async list(namespace: string, prefix: string, limit: number, cursor?: string): Promise<KeyPage> {
    checkList(prefix, limit, cursor)
    const { space, index } = redisKeys(namespace)
    const isAfter = cursor !== undefined && Buffer.compare(Buffer.from(cursor), Buffer.from(prefix)) >= 0
    const from = isAfter ? `(${cursor}` : `[${prefix}`
    // UTF-8 has no byte 255: all keys with the prefix sort before it.
    const to = Buffer.concat([Buffer.from(`(${prefix}`), Buffer.of(255)])
    const reply = await this.#eval(LIST, [index], [space, from, to, String(limit)])
    const [last, page] = reply as [Buffer, Buffer[]]
    return { keys: page.map(String), ...(last.length > 0 && { cursor: String(last) }) }
  }

  async compareAndSwap(
    namespace: string,
    key: string,
    expected: Uint8Array | undefined,
    value: Uint8Array,
    options: SetOptions = {},
  ): Promise<boolean> {
    const { space, keys } = entry(namespace, key)
    const args = [space, key, ...valueArguments(value, options), ...(expected ? [bufferOf(expected)] : [])]
    return (await this.#eval(COMPARE_AND_SWAP, keys, args)) === 1
  }

  async *entries(): AsyncGenerator<StoreEntry | StoreFault> {
    const namespaces = new Set<string>()
    for await (const at of this.#scan()) {
      const { namespace, key } = parseRedisKey(at)
      if (namespace === undefined) {
        yield { fault: `${shownKey(at)} has no namespace` }
        continue
      }
      const type = String(await this.#run(['TYPE', at]))
      const isRight = type === 'none' || type === (key === undefined ? 'zset' : 'string')
      if (!isRight) yield { fault: `${shownKey(at)} has the Redis type ${type}` }
      else if (key === undefined) namespaces.add(namespace)
      else if (type === 'string' && (await this.#run(['ZSCORE', redisKeys(namespace).index, key])) === null) {
        yield { fault: `${shownKey(at)} is missing from the index: write it again` }
        const entry = await this.#entry(namespace, key)
        if (entry) yield entry
      }
    }
    for (const namespace of namespaces) yield* this.#entriesOf(namespace)
  }

  async restore(entries: Iterable<StoreEntry>, isReplacing: boolean): Promise<number | undefined> {
    if (!isReplacing) {
      for await (const at of this.#scan()) if (parseRedisKey(at).key !== undefined) return undefined
    }
    for await (const at of this.#scan()) await this.#run(['UNLINK', at])
    let written = 0
    for (const { namespace, key, value, expiresAt } of entries) {
      const ttlMs = expiresAt === undefined ? undefined : expiresAt - Date.now()
      if (ttlMs !== undefined && ttlMs <= 0) continue
      await this.set(namespace, key, value, { ttlMs })
      written++
    }
    return written
  }

  async rename(from: string, to: string, isReplacing: boolean): Promise<number | undefined> {
    const [old, next] = [redisKeys(from), redisKeys(to)]
    const args = [old.space, next.space, isReplacing ? '1' : '0']
    const moved = Number(await this.#eval(RENAME, [old.index, next.index], args))
    return moved < 0 ? undefined : moved
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  /** The entries of the index, page by page. */
  async *#entriesOf(namespace: string): AsyncGenerator<StoreEntry | StoreFault> {
    let cursor: string | undefined
    do {
      const page = await this.list(namespace, '', ENTRY_BATCH, cursor)
      const entries = await Promise.all(page.keys.map((key) => this.#entry(namespace, key)))
      for (const entry of entries) if (entry) yield entry
      cursor = page.cursor
    } while (cursor !== undefined)
  }

  /** @returns undefined if it is missing or invalid: {@link entries} has reported that. */
  async #entry(namespace: string, key: string): Promise<StoreEntry | undefined> {
    const at = redisKeys(namespace).space + key
    if (String(await this.#run(['TYPE', at])) !== 'string') return undefined
    const value = await this.get(namespace, key)
    const asked = Date.now() // before the reply arrives, so that reading never extends the life of an entry
    const ttlMs = Number(await this.#run(['PTTL', at]))
    if (!value || ttlMs === EXPIRED) return undefined
    return { namespace, key, value, ...(ttlMs >= 0 && { expiresAt: asked + ttlMs }) }
  }

  /** The keys of this store in the database, possibly with duplicates. */
  async *#scan(): AsyncGenerator<Buffer> {
    let cursor = '0'
    do {
      const reply = await this.#run(['SCAN', cursor, 'MATCH', `${KEY_PREFIX}*`, 'COUNT', '1000'])
      const [next, keys] = reply as [Buffer, Buffer[]]
      yield* keys
      cursor = String(next)
    } while (cursor !== '0')
  }

  #eval(script: string, keys: readonly string[], args: readonly (string | Buffer)[]): Promise<unknown> {
    return this.#run(['EVAL', script, String(keys.length), ...keys, ...args])
  }

  async #run(command: readonly (string | Buffer)[]): Promise<unknown> {
    try {
      return await this.#connection.run(command)
    } catch (error) {
      if (error instanceof StoreUnavailableError) throw error
      const reason = (error as Error).message
      if (reason.includes('OOM '))
        throw new StoreFullError(this.#name, 'it is at its maxmemory', { cause: error })
      throw new StoreUnavailableError(this.#name, reason, { cause: error })
    }
  }
}

/** Entries that are read at once: each may have a value of a megabyte. */
const ENTRY_BATCH = 50

/** The answer of `PTTL` for a missing key. */
const EXPIRED = -2

/** The prefix of all keys. */
const KEY_PREFIX = 'wasm-serve:{'

/** A Redis key: of a value or, without a key, of an index. */
function parseRedisKey(at: Buffer): { namespace: string | undefined; key?: string } {
  const text = at.toString()
  const [, encoded = '', rest = ''] = /^wasm-serve:\{([^}]*)\}:(.*)$/s.exec(text) ?? []
  const namespace = isUtf8(at) ? decodeNamespace(encoded) : undefined
  if (rest.startsWith('key:') && rest.length > 'key:'.length)
    return { namespace, key: rest.slice('key:'.length) }
  return { namespace: rest === 'index' ? namespace : undefined }
}

/** Accepts any bytes. */
function shownKey(at: Buffer): string {
  return JSON.stringify(at.toString())
}

/** The part in braces is the hash tag of Redis Cluster: all keys of a namespace are in one slot. */
function redisKeys(namespace: string): { space: string; index: string } {
  const tag = `${KEY_PREFIX}${keySpace(namespace).slice(0, -1)}}`
  return { space: `${tag}:key:`, index: `${tag}:index` }
}

function entry(namespace: string, key: string): { space: string; keys: readonly string[] } {
  checkKey(key)
  const { space, index } = redisKeys(namespace)
  return { space, keys: [space + key, index] }
}

/** @throws {@link KvArgumentInvalidError}, {@link KvValueTooLargeError} */
function valueArguments(value: Uint8Array, { ttlMs }: SetOptions): [value: Buffer, ttl: string] {
  checkValue(value)
  checkTtl(ttlMs)
  return [bufferOf(value), String(ttlMs ?? 0)]
}

function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

/*
 * Lua, which Redis runs without anything in between. KEYS: the value, and the index of the namespace, a sorted set of
 * its keys in which all have the same score and so are in the order of their bytes. Values expire by themselves;
 * their keys leave the index when they are met there, and with each write two places of it are looked at.
 *
 * The text of the value's key without the key itself is ARGV[1], so that others' can be made of it.
 */

const put = `
local function put(key, value, ttl)
  if ttl == '0' then redis.call('SET', KEYS[1], value)
  else redis.call('SET', KEYS[1], value, 'PX', ttl) end
  redis.call('ZADD', KEYS[2], 0, key)
  for _, other in ipairs(redis.call('ZRANDMEMBER', KEYS[2], 2)) do
    if redis.call('EXISTS', ARGV[1] .. other) == 0 then redis.call('ZREM', KEYS[2], other) end
  end
end`

/** ARGV: space, key, value, milliseconds to live or 0. */
const SET = `${put}
put(ARGV[2], ARGV[3], ARGV[4])
return 1`

/** ARGV: as for {@link SET}; then the expected value, if there is one. */
const COMPARE_AND_SWAP = `${put}
local found = redis.call('GET', KEYS[1])
if found ~= (ARGV[5] or false) then return 0 end
put(ARGV[2], ARGV[3], ARGV[4])
return 1`

/** ARGV: space, key. */
const DELETE = `
redis.call('ZREM', KEYS[2], ARGV[2])
return redis.call('DEL', KEYS[1])`

/**
 * KEYS: the indices of both namespaces. ARGV: their spaces, and 1 to replace values of the second; else returns -1,
 * without any change, if it has values. Redis runs no other command meanwhile: for about a second if a million keys move.
 */
const RENAME = `
local function each(index, use)
  for start = 0, redis.call('ZCARD', index) - 1, 1000 do
    for _, key in ipairs(redis.call('ZRANGE', index, start, start + 999)) do use(key) end
  end
end
local taken, moved = 0, 0
if ARGV[3] == '0' then
  each(KEYS[2], function(key) taken = taken + redis.call('EXISTS', ARGV[2] .. key) end)
  if taken > 0 then return -1 end
  redis.call('DEL', KEYS[2])
end
each(KEYS[1], function(key)
  if redis.call('EXISTS', ARGV[1] .. key) == 0 then return end
  redis.call('RENAME', ARGV[1] .. key, ARGV[2] .. key)
  moved = moved + 1
end)
if moved > 0 then
  if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[1], KEYS[2]) end
  redis.call('RENAME', KEYS[1], KEYS[2])
end
return moved`

/**
 * ARGV: space, limits of the range as `ZRANGEBYLEX` takes them, keys of a page. Returns the last key looked at, empty
 * if there are no more, and the page. Ten rounds at most, so that an index of expired keys blocks other clients only briefly.
 */
const LIST = `
local from, most, page = ARGV[2], tonumber(ARGV[4]), {}
for _ = 1, 10 do
  local wanted = most - #page
  local found = redis.call('ZRANGEBYLEX', KEYS[1], from, ARGV[3], 'LIMIT', 0, wanted)
  for _, key in ipairs(found) do
    if redis.call('EXISTS', ARGV[1] .. key) == 1 then page[#page + 1] = key
    else redis.call('ZREM', KEYS[1], key) end
  end
  if #found < wanted then return { '', page } end
  from = '(' .. found[#found]
  if #page == most then break end
end
return { from:sub(2), page }`
