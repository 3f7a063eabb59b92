import { FleetContentError, FleetUnavailableError } from '../../errors/errors.ts'
import { RedisConnection } from '../../guest/store/redis-connection.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import { JsonProblem, readObject } from '../json-fields.ts'
import type {
  FleetHead,
  FleetRevision,
  FleetStore,
  NodeReport,
  SeenHead,
  SeenNode,
  SeenNodes,
} from './fleet-store.ts'
import { readFleetHead, readRevision } from './head-json.ts'

export interface RedisFleetSettings {
  /** `redis://`, `rediss://`, `redis+sentinel://` or `rediss+sentinel://`. */
  readonly url: string
  /** The name of the fleet. */
  readonly fleet: string
  /** The beginning of all keys. */
  readonly keyPrefix: string
  /** The number of revisions that are kept. */
  readonly history: number
  /** Time limit of a step, in ms. Contents have more. */
  readonly timeoutMs?: number | undefined
  /** Logs when the server is lost and when it is back, and when it refuses commands. */
  readonly log?: Pick<Log, 'info' | 'warn'> | undefined
}

/** Default of `timeoutMs`. */
const TIMEOUT_MS = 3_000

/** Time limit for a content, which may be 64 MiB. */
const CONTENT_MS = 60_000

/** How long a content stays that no revision uses. */
const UNUSED_MS = 3_600_000

/** How long the record of a node stays after its last report. */
const GONE_MS = 3_600_000

/**
 * A fleet in Redis (6.2 or later) or Valkey. Its keys have one hash tag, so that they are in one slot of a cluster. A
 * write is durable as far as the server's configuration makes it so.
 *
 * @throws `PackageMissingError`
 */
export async function openRedisFleet(settings: RedisFleetSettings): Promise<FleetStore> {
  const redis = await loadPackage('the fleet', '@redis/client', () => import('@redis/client'))
  const { url, fleet, log, timeoutMs = TIMEOUT_MS } = settings
  const name = `${addressOf(url)}, fleet ${fleet}`
  const connection = new RedisConnection(redis, {
    ...{ url, name, timeoutMs, log },
    unavailable: (name, reason, options) => new FleetUnavailableError(name, reason, options),
  })
  await connection.ready().catch(() => undefined) // a node can boot without it
  return new RedisFleetStore(name, connection, settings)
}

/** The URL without user and password. */
function addressOf(url: string): string {
  return url.replace(/^([^:]+:\/\/)[^@/]*@/, '$1')
}

class RedisFleetStore implements FleetStore {
  readonly name: string
  readonly #connection: RedisConnection
  readonly #history: number
  readonly #keys: string
  readonly #log: RedisFleetSettings['log']
  /** The last reason that was logged, until a report is accepted. */
  #refusal: string | undefined

  constructor(name: string, connection: RedisConnection, settings: RedisFleetSettings) {
    this.name = name
    this.#connection = connection
    this.#history = settings.history
    this.#log = settings.log
    this.#keys = `${settings.keyPrefix}{fleet:${settings.fleet}}:`
  }

  async head(known = ''): Promise<SeenHead> {
    return seenHead(await this.#eval(HEAD, ['head'], [known]))
  }

  async report(node: NodeReport, known = ''): Promise<SeenHead> {
    const seen = await this.#eval(REPORT, ['head', 'nodes'], [known, node.node, JSON.stringify(node)])
    this.#refusal = undefined
    return seenHead(seen)
  }

  async write(
    expected: string | undefined,
    next: FleetHead,
    uses?: readonly string[],
  ): Promise<'written' | 'changed' | 'missing'> {
    const { newest, tag } = next
    const added = uses ? [JSON.stringify(newest), JSON.stringify(uses)] : ['', '[]']
    const args = [expected ?? '', tag, JSON.stringify(next), ...added, String(this.#history)]
    const result = await this.#eval(
      WRITE,
      ['head', 'revisions', 'references', 'uses', 'written'],
      [...args, `${this.#keys}content:`],
    )
    const text = String(result)
    return text === 'written' || text === 'missing' ? text : 'changed'
  }

  async revisions(): Promise<readonly FleetRevision[]> {
    const found = await this.#run(['LRANGE', `${this.#keys}revisions`, '0', '-1'])
    return (found as Buffer[]).map((text) =>
      parsed(text, 'list of revisions', (value) => readRevision(value, 'it')),
    )
  }

  async content(digest: string): Promise<Uint8Array | undefined> {
    const found = await this.#run(['GET', this.#content(digest)], CONTENT_MS)
    // The reply is a view of the socket's buffer.
    return found instanceof Uint8Array ? new Uint8Array(found) : undefined
  }

  async missing(digests: readonly string[]): Promise<readonly string[]> {
    if (digests.length === 0) return []
    const args = [String(UNUSED_MS), `${this.#keys}content:`, JSON.stringify(digests)]
    return ((await this.#eval(MISSING, ['references'], args)) as Buffer[]).map(String)
  }

  async add(digest: string, bytes: Uint8Array): Promise<void> {
    const { buffer, byteOffset, length } = bytes
    const args = [String(UNUSED_MS), Buffer.from(buffer, byteOffset, length)]
    await this.#eval(ADD, [`content:${digest}`], args, CONTENT_MS)
  }

  async leave(node: string): Promise<void> {
    await this.#run(['HDEL', `${this.#keys}nodes`, node])
  }

  async nodes(): Promise<SeenNodes> {
    const found = (await this.#eval(NODES, ['nodes'], [String(GONE_MS)])) as Buffer[]
    const [now, ...texts] = found.map(String)
    const nodes = texts.flatMap((text) => {
      const space = text.indexOf(' ')
      const report = parsed(text.slice(space + 1), 'report of a node', readReport)
      return [{ ...report, seen: Number(text.slice(0, space)) } satisfies SeenNode]
    })
    return { now: Number(now), nodes: nodes.sort((one, other) => one.node.localeCompare(other.node)) }
  }

  onWrite(listener: () => void): void {
    this.#connection.listen(`${this.#keys}written`, listener)
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  #content(digest: string): string {
    return `${this.#keys}content:${digest}`
  }

  #eval(
    script: string,
    keys: readonly string[],
    args: readonly (string | Buffer)[],
    timeoutMs?: number,
  ): Promise<unknown> {
    const names = keys.map((key) => this.#keys + key)
    return this.#run(['EVAL', script, String(names.length), ...names, ...args], timeoutMs)
  }

  async #run(command: readonly (string | Buffer)[], timeoutMs?: number): Promise<unknown> {
    try {
      return await this.#connection.run(command, timeoutMs)
    } catch (error) {
      if (error instanceof FleetUnavailableError) throw error
      const reason = (error as Error).message
      if (reason !== this.#refusal)
        this.#log?.warn({ store: this.name, reason }, 'the store refuses commands')
      this.#refusal = reason
      throw new FleetUnavailableError(this.name, reason, { cause: error })
    }
  }
}

function seenHead(reply: unknown): SeenHead {
  const [now, report, tag, json] = (reply as Buffer[]).map(String)
  const replaced = report ? parsed(report, 'report of a node', readReport).instance : undefined
  if (!tag) return { now: Number(now), replaced, head: undefined }
  return { now: Number(now), replaced, head: json ? parsed(json, 'head', readFleetHead) : 'unchanged' }
}

/** What others have written. @throws {@link FleetContentError} */
function parsed<Value>(text: Buffer | string, what: string, read: (value: unknown) => Value): Value {
  try {
    return read(JSON.parse(String(text)))
  } catch (error) {
    if (!(error instanceof JsonProblem || error instanceof SyntaxError)) throw error
    throw new FleetContentError(what, `it is damaged: ${error.message}`)
  }
}

function readReport(value: unknown): NodeReport {
  readObject(value, 'it')
  return value as NodeReport
}

/*
 * Lua, which Redis runs without anything in between. The head is a hash of its tag and its JSON text; the record of a
 * node is the time of its report and its JSON text. Keys of contents are made from a prefix.
 */

const now = `
local time = redis.call('TIME')
local now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))`

const readHead = `
local tag = redis.call('HGET', KEYS[1], 'tag')
if not tag then return { now, replaced } end
if tag == ARGV[1] then return { now, replaced, tag } end
return { now, replaced, tag, redis.call('HGET', KEYS[1], 'json') }`

/** ARGV: the known tag. */
const HEAD = `${now}
local replaced = ''${readHead}`

/** KEYS: head, nodes. ARGV: the known tag, the node, its report. */
const REPORT = `${now}
local replaced = string.match(redis.call('HGET', KEYS[2], ARGV[2]) or '', '^%d+ (.*)$') or ''
redis.call('HSET', KEYS[2], ARGV[2], now .. ' ' .. ARGV[3])${readHead}`

/** ARGV: milliseconds after which a record is removed. Returns the time and the records. */
const NODES = `${now}
local found = { now }
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local seen = tonumber(string.match(all[at + 1], '^%d+'))
  if tonumber(now) - seen > tonumber(ARGV[1]) then redis.call('HDEL', KEYS[1], all[at])
  else found[#found + 1] = all[at + 1] end
end
return found`

/**
 * KEYS: head, revisions, references, uses, channel. ARGV: the expected tag or nothing, the tag, the head; the new
 * revision or nothing, the digests that it uses; the number of revisions to keep, the prefix of contents. The revision from
 * which the rollout began is kept in any case: nodes that start meanwhile serve it, and a rollback goes there.
 */
const WRITE = `
if (redis.call('HGET', KEYS[1], 'tag') or '') ~= ARGV[1] then return 'changed' end
local keep, prefix = tonumber(ARGV[6]), ARGV[7]
if ARGV[4] ~= '' then
  local uses = cjson.decode(ARGV[5])
  for _, digest in ipairs(uses) do
    if redis.call('EXISTS', prefix .. digest) == 0 then return 'missing' end
  end
  for _, digest in ipairs(uses) do
    redis.call('PERSIST', prefix .. digest)
    redis.call('HINCRBY', KEYS[3], digest, 1)
  end
  redis.call('LPUSH', KEYS[2], ARGV[4])
  redis.call('HSET', KEYS[4], cjson.decode(ARGV[4]).id, ARGV[5])
  local before = cjson.decode(ARGV[3]).before
  for at, old in ipairs(redis.call('LRANGE', KEYS[2], keep, -1)) do
    if before and cjson.decode(old).id == before.id then
      keep = keep + at
      break
    end
  end
  for _, old in ipairs(redis.call('LRANGE', KEYS[2], keep, -1)) do
    local id = cjson.decode(old).id
    for _, digest in ipairs(cjson.decode(redis.call('HGET', KEYS[4], id) or '[]')) do
      if redis.call('HINCRBY', KEYS[3], digest, -1) <= 0 then
        redis.call('HDEL', KEYS[3], digest)
        redis.call('UNLINK', prefix .. digest)
      end
    end
    redis.call('HDEL', KEYS[4], id)
  end
  redis.call('LTRIM', KEYS[2], 0, keep - 1)
end
redis.call('HSET', KEYS[1], 'tag', ARGV[2], 'json', ARGV[3])
redis.call('PUBLISH', KEYS[5], ARGV[2])
return 'written'`

/** KEYS: references. ARGV: milliseconds that an unused content stays, the prefix of contents, digests. */
const MISSING = `
local missing = {}
for _, digest in ipairs(cjson.decode(ARGV[3])) do
  local key = ARGV[2] .. digest
  if redis.call('EXISTS', key) == 0 then missing[#missing + 1] = digest
  elseif redis.call('HEXISTS', KEYS[1], digest) == 0 then redis.call('PEXPIRE', key, ARGV[1]) end
end
return missing`

/** KEYS: the content. ARGV: milliseconds that it stays if it is not used, its bytes. */
const ADD = `
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1])
elseif redis.call('PTTL', KEYS[1]) >= 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1`
