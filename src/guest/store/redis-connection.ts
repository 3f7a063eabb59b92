import type * as RedisPackage from '@redis/client'
import { StoreUnavailableError } from '../../errors/errors.ts'
import type { Log } from '../../observe/log/guest-log.ts'

export interface RedisConnectionSettings {
  /** The URL with user and password, which are never shown. */
  readonly url: string
  /** The URL without them. */
  readonly name: string
  /** Time limit of a command, and of opening the connection. */
  readonly timeoutMs: number
  readonly log?: Log | undefined
}

type RedisClient = ReturnType<typeof createClient>

/** Time limit of a connection attempt. */
const CONNECT_MS = 2_000

/** Maximum number of pending commands; further ones fail immediately. */
const MAX_PENDING_COMMANDS = 10_000

/** Errors of the server for a wrong or missing password, and for a disabled user. */
const LOGIN_REFUSED = /^(WRONGPASS|NOAUTH|ERR (AUTH|invalid password|RedisClient sent AUTH))/

/**
 * A connection that reconnects when the server is back. While it is down, commands fail immediately; they are neither
 * queued nor sent twice.
 */
export class RedisConnection {
  readonly #redis: typeof RedisPackage
  readonly #settings: RedisConnectionSettings
  #client: RedisClient
  #openedAt = 0
  #isClosed = false
  #isLost = false

  constructor(redis: typeof RedisPackage, settings: RedisConnectionSettings) {
    this.#redis = redis
    this.#settings = settings
    this.#client = this.#open()
  }

  /**
   * @throws {@link StoreUnavailableError} if there is no connection within {@link CONNECT_MS}; at once if the server
   * refuses the login, because a retry would fail too.
   */
  async ready(): Promise<void> {
    const client = this.#client
    let last: unknown
    let onError: (error: unknown) => void = () => undefined
    const refused = new Promise<never>((_resolve, reject) => {
      onError = (error) => {
        last = error
        if (this.#isRefusal(error)) reject(error)
      }
    })
    client.on('error', onError)
    try {
      await within(CONNECT_MS, Promise.race([this.#login(client), refused]))
    } catch (error) {
      throw this.#unavailable(this.#isRefusal(error) ? error : (last ?? error))
    } finally {
      client.off('error', onError)
    }
  }

  /** Runs a command. @throws {@link StoreUnavailableError}, or the error of the server. */
  async run<Reply>(command: (client: RedisClient) => Promise<Reply>): Promise<Reply> {
    if (this.#isClosed) throw new StoreUnavailableError(this.#settings.name, 'it is closed')
    if (!this.#client.isReady && performance.now() - this.#openedAt > CONNECT_MS) this.#replace()
    const client = this.#client
    try {
      return await within(this.#settings.timeoutMs, command(client))
    } catch (error) {
      // A connection whose other end vanished silently would stay open for a quarter of an hour.
      if (error instanceof CommandTimeout && client === this.#client) this.#replace()
      if (error instanceof this.#redis.ErrorReply) throw error
      throw this.#unavailable(error)
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    if (!this.#client.isReady) return this.#client.destroy()
    await within(this.#settings.timeoutMs, this.#client.close()).catch(() => this.#client.destroy())
  }

  #replace(): void {
    if (this.#isClosed) return
    this.#lose('it does not answer')
    this.#client.destroy()
    this.#client = this.#open()
  }

  #open(): RedisClient {
    this.#openedAt = performance.now()
    const client = createClient(this.#redis, this.#settings.url)
    client.on('error', (error: Error) => {
      if (client === this.#client) this.#lose(error.message)
    })
    client.on('ready', () => this.#find())
    client.connect().catch(() => undefined) // the `error` event has the reason, and the client reconnects
    return client
  }

  /** A server that requires a password accepts connections without one: only a command reveals that. */
  async #login(client: RedisClient): Promise<void> {
    if (!client.isReady) await new Promise((resolve) => client.once('ready', resolve))
    await client.ping().catch((error: unknown) => {
      if (this.#isRefusal(error) || !(error instanceof this.#redis.ErrorReply)) throw error
    })
  }

  #isRefusal(error: unknown): boolean {
    return error instanceof this.#redis.ErrorReply && LOGIN_REFUSED.test(error.message)
  }

  #lose(reason: string): void {
    if (this.#isLost || this.#isClosed) return
    this.#isLost = true
    this.#settings.log?.warn({ store: this.#settings.name, reason }, 'the store cannot be reached')
  }

  #find(): void {
    if (!this.#isLost) return
    this.#isLost = false
    this.#settings.log?.info({ store: this.#settings.name }, 'the store can be reached again')
  }

  #unavailable(error: unknown): Error {
    const reason = (error as Error).message || 'no answer'
    const advice = this.#isRefusal(error) ? ' (check the user and password of its URL)' : ''
    return new StoreUnavailableError(this.#settings.name, reason + advice, { cause: error })
  }
}

function createClient({ createClient, RESP_TYPES }: typeof RedisPackage, url: string) {
  return createClient({
    url,
    RESP: 2, // sufficient, and supported by every version of Redis and Valkey
    disableOfflineQueue: true,
    commandsQueueMaxLength: MAX_PENDING_COMMANDS,
    socket: {
      connectTimeout: CONNECT_MS,
      reconnectStrategy: (retries: number) => Math.min(50 * 2 ** retries, 1_000),
    },
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  })
}

class CommandTimeout extends Error {
  override readonly name = 'TimeUp'
}

async function within<Value>(ms: number, work: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined
  const timeUp = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new CommandTimeout(`no answer within ${ms} ms`)), ms)
  })
  work.catch(() => undefined) // it may fail after the time is up
  try {
    return await Promise.race([work, timeUp])
  } finally {
    clearTimeout(timer)
  }
}
