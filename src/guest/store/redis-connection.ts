import type * as RedisPackage from '@redis/client'
import { StoreUnavailableError } from '../../errors/errors.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import { parseSentinelUrl, type SentinelUrl } from './redis-url.ts'

interface RedisConnectionSettings {
  /**
   * The URL with user and password, which are never shown. With the scheme `redis+sentinel:` or `rediss+sentinel:` its
   * hosts are those of Sentinels, and its path is the name of the primary.
   */
  readonly url: string
  /** The URL without them. */
  readonly name: string
  /** Time limit of a command, and of opening the connection. */
  readonly timeoutMs: number
  readonly log?: Pick<Log, 'info' | 'warn'> | undefined
  /** Makes the error for a server that does not answer. Default: {@link StoreUnavailableError}. */
  readonly unavailable?: (name: string, reason: string, options?: ErrorOptions) => Error
}

/** A client of one server, or of a server that Sentinels name. */
interface RedisClient {
  readonly isReady: boolean
  send(args: readonly (string | Buffer)[]): Promise<unknown>
  on(event: 'error' | 'ready', listener: (error: Error) => void): void
  once(event: 'ready', listener: () => void): void
  off(event: 'error', listener: (error: Error) => void): void
  /** Calls the listener for each message of a channel, also after the connection was lost. */
  subscribe(channel: string, listener: () => void): Promise<void>
  connect(): Promise<unknown>
  close(): Promise<unknown>
  destroy(): unknown
}

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
  #subscriber: RedisClient | undefined
  #client: RedisClient
  #openedAt = 0
  #isClosed = false
  #isLost = false
  /** Why there is no connection. */
  #reason: string | undefined

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

  /**
   * Runs a command.
   *
   * @param timeoutMs - Default: that of the settings.
   * @throws the error for a server that does not answer, or the error of the server.
   */
  async run(args: readonly (string | Buffer)[], timeoutMs = this.#settings.timeoutMs): Promise<unknown> {
    if (this.#isClosed) throw this.#unavailable(new Error('it is closed'))
    if (!this.#client.isReady && performance.now() - this.#openedAt > CONNECT_MS) this.#replace()
    const client = this.#client
    try {
      return await within(timeoutMs, client.send(args))
    } catch (error) {
      // A connection whose other end vanished silently would stay open for a quarter of an hour.
      if (error instanceof CommandTimeout && client === this.#client) this.#replace()
      if (!(error instanceof this.#redis.ErrorReply)) throw this.#unavailable(error)
      // After a failover, the address may be that of another server.
      if (error.message.startsWith('READONLY') && client === this.#client) this.#replace()
      throw error
    }
  }

  /**
   * Calls the listener for each message of a channel. Messages are lost while there is no connection.
   *
   * @param listener - Called without the message.
   */
  listen(channel: string, listener: () => void): void {
    const subscriber = openClient(this.#redis, this.#settings.url, PING_MS)
    this.#subscriber = subscriber
    subscriber.on('error', () => undefined) // it reconnects
    subscriber
      .connect()
      .then(() => subscriber.subscribe(channel, listener))
      .catch(() => {
        subscriber.destroy()
        // No Sentinel has answered.
        setTimeout(() => this.#isClosed || this.listen(channel, listener), CONNECT_MS).unref()
      })
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#subscriber?.destroy()
    if (!this.#client.isReady) return void this.#client.destroy()
    await within(this.#settings.timeoutMs, this.#client.close()).catch(() => this.#client.destroy())
  }

  #replace(): void {
    if (this.#isClosed) return
    this.#lose(this.#reason ?? 'it does not respond')
    this.#client.destroy()
    this.#client = this.#open()
  }

  #open(): RedisClient {
    this.#openedAt = performance.now()
    const client = openClient(this.#redis, this.#settings.url)
    client.on('error', (error: Error) => {
      if (client === this.#client) this.#lose(error.message)
    })
    client.on('ready', () => this.#find())
    client.connect().catch(() => undefined) // the `error` event has the reason, and the client reconnects
    return client
  }

  /** A server that requires a password accepts connections without one: only a command reveals that. */
  async #login(client: RedisClient): Promise<void> {
    if (!client.isReady) await new Promise<void>((resolve) => client.once('ready', resolve))
    await client.send(['PING']).catch((error: unknown) => {
      if (this.#isRefusal(error) || !(error instanceof this.#redis.ErrorReply)) throw error
    })
  }

  #isRefusal(error: unknown): boolean {
    return error instanceof this.#redis.ErrorReply && LOGIN_REFUSED.test(error.message)
  }

  #lose(reason: string): void {
    this.#reason = reason
    if (this.#isLost || this.#isClosed) return
    this.#isLost = true
    this.#settings.log?.warn({ store: this.#settings.name, reason }, 'the store cannot be reached')
  }

  #find(): void {
    this.#reason = undefined
    if (!this.#isLost) return
    this.#isLost = false
    this.#settings.log?.info({ store: this.#settings.name }, 'the store can be reached again')
  }

  #unavailable(error: unknown): Error {
    const { message } = error as Error
    const reason = (this.#client.isReady ? message : (this.#reason ?? message)) || 'no response'
    const advice = this.#isRefusal(error) ? ' (check the user and password of its URL)' : ''
    const { name, unavailable } = this.#settings
    const options = { cause: error }
    if (unavailable) return unavailable(name, reason + advice, options)
    return new StoreUnavailableError(name, reason + advice, options)
  }
}

/** Interval of pings of a connection that only receives. */
const PING_MS = 10_000

function openClient(redis: typeof RedisPackage, url: string, pingInterval?: number): RedisClient {
  const sentinel = parseSentinelUrl(url)
  return sentinel ? openSentinel(redis, sentinel) : openServer(redis, url, pingInterval)
}

/** @param pingInterval - In ms. Default: no pings. */
function openServer(
  { createClient, RESP_TYPES }: typeof RedisPackage,
  url: string,
  pingInterval?: number,
): RedisClient {
  const client = createClient({
    url,
    RESP: 2, // sufficient, and supported by every version of Redis and Valkey
    disableOfflineQueue: pingInterval === undefined,
    commandsQueueMaxLength: MAX_PENDING_COMMANDS,
    ...(pingInterval !== undefined && { pingInterval }),
    socket: {
      connectTimeout: CONNECT_MS,
      reconnectStrategy: (retries: number) => Math.min(50 * 2 ** retries, 1_000),
    },
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  })
  const destroy = client.destroy.bind(client)
  return Object.assign(client, {
    send: (args: readonly (string | Buffer)[]) => client.sendCommand([...args]),
    destroy() {
      destroy()
      client.once('connect', destroy) // a socket that was being opened: the package would keep it, and the process alive
    },
  })
}

/** Interval of questions to a Sentinel for the primary's address; a failover is also announced by it. */
const SENTINEL_MS = 1_000

function openSentinel(
  { createSentinel, RESP_TYPES }: typeof RedisPackage,
  { isTls, login, sentinels, name, database }: SentinelUrl,
): RedisClient {
  const socket = {
    connectTimeout: CONNECT_MS,
    reconnectStrategy: (retries: number) => Math.min(50 * 2 ** retries, 1_000),
    ...(isTls && { tls: true as const }),
  }
  const sentinel = createSentinel({
    name,
    sentinelRootNodes: [...sentinels],
    RESP: 2,
    scanInterval: SENTINEL_MS,
    passthroughClientErrorEvents: true,
    nodeClientOptions: {
      socket,
      database,
      disableOfflineQueue: true,
      commandsQueueMaxLength: MAX_PENDING_COMMANDS,
      ...login,
    },
    sentinelClientOptions: { socket },
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  })
  return Object.assign(sentinel, {
    send: (args: readonly (string | Buffer)[]) => sentinel.sendCommand(false, [...args]),
  })
}

class CommandTimeout extends Error {
  override readonly name = 'TimeUp'
}

async function within<Value>(ms: number, work: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined
  const timeUp = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new CommandTimeout(`no response within ${ms} ms`)), ms)
  })
  work.catch(() => undefined) // it may fail after the time is up
  try {
    return await Promise.race([work, timeUp])
  } finally {
    clearTimeout(timer)
  }
}
