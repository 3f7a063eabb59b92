import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { ChangeRefusedError, FilesUnsettledError, InternalError } from '../errors/errors.ts'
import type { Meters } from '../observe/metrics.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { raiseMemoryCeiling } from '../platform/memory-ceiling.ts'
import type { VersionedOptions } from '../route/open-routes.ts'
import { RoutePool } from '../route/route-pool.ts'
import { createApp } from '../server/app.ts'
import type { KeptKeys } from '../server/edge/jwt.ts'
import type { RunningServer } from '../server/server.ts'
import { ChangeLog, type ChangeRecord } from './change-record.ts'
import { FileLog } from './file-log.ts'
import { keepWhatStays } from './needs-restart.ts'

/** What is to be served: made anew for each change, from files that may have changed. */
export interface Wanted {
  readonly options: CheckedServerOptions & Pick<VersionedOptions, 'routes'>
  /** Most pages of 64 KiB that a route's memory may need. */
  readonly pages: number
  /** What was left out, in words. */
  readonly warnings?: readonly string[]
  /** Called when it is good and about to go live: what has to outlast the process is written. */
  commit?(): Promise<void>
}

/**
 * Makes what is to be served.
 *
 * @param onFile - To be told of each file before it is read.
 * @param signal - Ends it. None: nothing is served yet.
 */
export type MakeWanted<Made extends Wanted> = (
  onFile: (path: string) => void,
  signal?: AbortSignal,
) => Promise<Made>

/** What is served. */
export interface Live<Made extends Wanted> {
  readonly wanted: Made
  readonly app: FastifyInstance
  readonly routes: readonly ServedRoute[]
  /** 1 at the start, and one more with each change. */
  readonly revision: number
}

/** What there is before anything is served. */
export interface Surroundings {
  readonly log: FastifyBaseLogger
  /** Where calls are counted, if they are. */
  readonly meters?: Meters | undefined
}

/** A file that was written to within so many milliseconds may not be whole. */
const YOUNG_MS = 200

/** How long files may go on changing. */
const SETTLE_MS = 5_000

/** How long the end waits for a change that is being made, and that may wait for a download. */
const CLOSE_MS = 500

/** How often to look meanwhile. */
const LOOK_MS = 50

/**
 * Changes what a server serves, while it serves. A change is made wholly before it is seen: loaded, compiled, started in
 * a thread that is thrown away, asked its smoke request. Then it takes the place of the old in one step. What was begun
 * ends on the old. If anything fails, the old stays. Changes come one after the other.
 */
export class Changer<Made extends Wanted> {
  readonly log = new ChangeLog()
  readonly #log: FastifyBaseLogger
  readonly #meters: Meters | undefined
  readonly #pool: RoutePool
  readonly #keptKeys: KeptKeys
  readonly #first: CheckedServerOptions
  #live: Live<Made>
  #files = new FileLog()
  #server: RunningServer | undefined
  #queue: Promise<unknown> = Promise.resolve()
  readonly #closed = new AbortController()

  private constructor(
    live: Live<Made>,
    files: FileLog,
    pool: RoutePool,
    keptKeys: KeptKeys,
    { log, meters }: Surroundings,
  ) {
    this.#live = live
    this.#files = files
    this.#first = live.wanted.options
    this.#pool = pool
    this.#keptKeys = keptKeys
    this.#log = log
    this.#meters = meters
  }

  /**
   * Makes what is served first.
   *
   * @param begin - Called when the options are known, before anything is opened that serves.
   * @throws what that throws.
   */
  static async open<Made extends Wanted>(
    make: MakeWanted<Made>,
    begin: (options: CheckedServerOptions) => Surroundings | Promise<Surroundings>,
  ): Promise<Changer<Made>> {
    const files = new FileLog()
    const wanted = await make((path) => files.note(path))
    const { log, meters } = await begin(wanted.options)
    raiseMemoryCeiling(wanted.pages)
    const options = { ...wanted.options, meters }
    const pool = new RoutePool(options, log)
    try {
      const keptKeys: KeptKeys = {}
      const { app, routes } = await createApp(options, log, pool, keptKeys)
      try {
        await wanted.commit?.()
      } catch (error) {
        await app.close()
        throw error
      }
      return new Changer({ wanted, app, routes, revision: 1 }, files, pool, keptKeys, { log, meters })
    } catch (error) {
      await pool.close()
      throw error
    }
  }

  get live(): Live<Made> {
    return this.#live
  }

  /** What is served was made from, or what {@link tryChange} tried last. */
  get files(): FileLog {
    return this.#files
  }

  /** The server that is to be changed. */
  follow(server: RunningServer): void {
    this.#server = server
  }

  /**
   * Puts what is made in the place of what is served.
   *
   * @returns what came of it; nothing is thrown, and nothing logged if it failed: see {@link report}.
   */
  async tryChange(reason: string, make: MakeWanted<Made>): Promise<ChangeRecord> {
    const { record } = await this.#inTurn(reason, make, true)
    return record
  }

  /**
   * The same, and what came of it is reported.
   *
   * @param signal - Ends it, unless it is about to go live.
   * @throws why it is not live: the reason of the signal too.
   */
  async change(reason: string, make: MakeWanted<Made>, signal?: AbortSignal): Promise<ChangeRecord> {
    const { record, error } = await this.#inTurn(reason, make, false, signal)
    this.report(record, error)
    if (error) throw error
    return record
  }

  /** Takes a record into the log of changes, and tells the operator. */
  report(record: ChangeRecord, error?: unknown): void {
    this.log.add(record)
    this.#meters?.reloads.count(record.ok ? 'ok' : 'refused')
    const { reason, revision, routes, kept, ms, warnings } = record
    if (record.ok) this.#log.info({ reason, revision, routes, kept, ms }, 'changed')
    else if (error instanceof InternalError) this.#log.error({ reason, err: error.cause }, 'not changed')
    else this.#log.error({ reason, code: record.error?.code }, `not changed: ${record.error?.message}`)
    for (const warning of warnings) this.#log.warn({ reason }, warning)
  }

  /** Ends the changes: one that is being made does not go live. To be called when the server has ended. */
  async close(): Promise<void> {
    this.refuse()
    await Promise.race([this.#queue, sleep(CLOSE_MS, undefined, { ref: false })])
    await this.#pool.close()
  }

  /** No change goes live from now on, and one that is being made is ended. */
  refuse(): void {
    this.#closed.abort(new ChangeRefusedError('the server is ending'))
  }

  #inTurn(reason: string, make: MakeWanted<Made>, isOfFiles: boolean, asked?: AbortSignal): Promise<Attempt> {
    const turn = this.#queue.then(() => this.#attempt(reason, make, isOfFiles, asked))
    this.#queue = turn
    return turn
  }

  async #attempt(
    reason: string,
    make: MakeWanted<Made>,
    isOfFiles: boolean,
    asked?: AbortSignal,
  ): Promise<Attempt> {
    const signal = forMany(AbortSignal.any([this.#closed.signal, ...(asked ? [asked] : [])]))
    const begun = performance.now()
    const files = this.#files
    const outcome = (kept: number, warnings: readonly string[]) => ({
      at: new Date().toISOString(),
      reason,
      revision: this.#live.revision,
      ms: Math.round(performance.now() - begun),
      routes: this.#live.routes.length,
      kept,
      warnings,
    })
    try {
      signal.throwIfAborted()
      const { kept, warnings } = await this.#goLive(await this.#makeSettled(make, signal), signal)
      return { record: { ...outcome(kept, warnings), ok: true } }
    } catch (thrown) {
      if (!isOfFiles) this.#files = files // it may have failed for reasons of its own: who watches them tries them
      const error = known(thrown)
      const { code, message } = error
      return { record: { ...outcome(0, []), ok: false, error: { code, message } }, error }
    }
  }

  /** Makes it from files that nobody is writing to. */
  async #makeSettled(make: MakeWanted<Made>, signal: AbortSignal): Promise<Made> {
    const until = performance.now() + SETTLE_MS
    for (;;) {
      const files = new FileLog()
      this.#files = files
      const [made] = await Promise.allSettled([make((path) => files.note(path), signal)])
      signal.throwIfAborted()
      for (;;) {
        const busy = [...new Set([...files.changed(), ...files.youngerThan(YOUNG_MS)])]
        if (busy.length === 0) {
          if (made.status === 'rejected') throw made.reason
          return made.value
        }
        if (performance.now() > until) throw new FilesUnsettledError(SETTLE_MS, busy.join(', '))
        await sleep(LOOK_MS)
        signal.throwIfAborted()
        if (files.changed().length > 0) break
      }
    }
  }

  async #goLive(wanted: Made, signal: AbortSignal): Promise<{ kept: number; warnings: readonly string[] }> {
    const { options, waiting } = keepWhatStays(wanted.options, this.#first)
    raiseMemoryCeiling(wanted.pages)
    const { app, routes, kept } = await createApp(
      { ...options, trial: true, meters: this.#meters, signal },
      this.#log,
      this.#pool,
      this.#keptKeys,
    )
    try {
      signal.throwIfAborted() // for the last time: from here on it goes live
      await wanted.commit?.()
    } catch (error) {
      await app.close()
      throw error
    }
    this.#live = { wanted, app, routes, revision: this.#live.revision + 1 }
    this.#log.level = options.logLevel
    // What was begun may take its time to end; nobody waits for it.
    this.#server
      ?.replace(app)
      .catch((error) => this.#log.error({ err: error }, 'what was replaced did not close'))
    return { kept, warnings: [...(wanted.warnings ?? []), ...waits(waiting)] }
  }
}

/** Each plug-in and each instance that is tried listens to it. */
function forMany(signal: AbortSignal): AbortSignal {
  setMaxListeners(0, signal)
  return signal
}

interface Attempt {
  readonly record: ChangeRecord
  readonly error?: unknown
}

function waits(options: readonly string[]): string[] {
  return options.length === 0 ? [] : [`changed options that count from the next start: ${options.join(', ')}`]
}

/** Errors that have a code are meant; others are bugs of ours. */
function known(thrown: unknown): Error & { readonly code: string } {
  if (thrown instanceof Error && 'code' in thrown && String(thrown.code).startsWith('WASM_SERVE_'))
    return thrown as Error & { code: string }
  return new InternalError({ cause: thrown })
}
