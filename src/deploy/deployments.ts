import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { ChangeRefusedError, InternalError } from '../errors/errors.ts'
import type { Meters } from '../observe/metrics.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { nextTurn, unlessAborted } from '../platform/async-work.ts'
import { raiseMemoryCeiling } from '../platform/node-workarounds.ts'
import { readSource, type Source } from '../plugin/source/source.ts'
import { isUrl } from '../plugin/source/url.ts'
import type { RoutePool } from '../route/route-pool.ts'
import { createApp } from '../server/app.ts'
import type { JwtKeyCache } from '../server/edge/jwt.ts'
import type { RunningServer } from '../server/server.ts'
import type { ConfigurationSource } from './configuration.ts'
import {
  ChangeLog,
  type ChangeRecord,
  type DesiredState,
  desiredState,
  refuseEdit,
  refuseState,
  sourceOf,
} from './desired-state.ts'
import { type FileLog, readSettled } from './file-log.ts'
import { PluginTable, type ReadingOptions } from './loader.ts'
import { together } from './plan.ts'
import { keepWhatStays, pagesOf, type Resolved, resolve } from './resolve.ts'
import type { EditStore } from './state-folder.ts'

/** What is served. */
export interface Deployment extends Resolved {
  /** 1 at the start, and one more with each change. */
  readonly revision: number
  readonly desired: DesiredState
  readonly app: FastifyInstance
  /** In the order of {@link Resolved.routes}. */
  readonly served: readonly ServedRoute[]
  /** What came of the change that made it; undefined for the first. */
  readonly record?: ChangeRecord | undefined
}

/**
 * The only place where what is served changes: start, reload, `--watch`, SIGHUP and the admin API apply a desired state.
 * A change is made wholly before it is seen: resolved, loaded, started in a thread that is thrown away, asked its smoke
 * request. Then it takes the place of the old in one step. What was begun ends on the old. If anything fails, the old
 * stays. Changes come one after the other.
 */
export interface Deployments {
  readonly current: Deployment
  /** What came of the last changes. */
  readonly log: ChangeLog
  /** The files that the configuration was read from, or those that a reload tried last. */
  readonly files: FileLog

  /**
   * Makes all that a desired state needs, when changes before it are over. Others wait until it is committed or aborted.
   *
   * @param desired - Made from what is desired now, or by a function that is called when its turn has come.
   * @throws why it cannot be served; {@link ChangeRefusedError} if the state was made from another revision, or the
   * server ends.
   */
  prepare(desired: DesiredState | MakeDesired, reason: string, options?: ChangeOptions): Promise<Prepared>

  /**
   * Prepares and commits. What came of it is logged.
   *
   * @throws as {@link Deployments.prepare} and {@link Prepared.commit}.
   */
  apply(desired: DesiredState | MakeDesired, reason: string, options?: ChangeOptions): Promise<Deployment>

  /** The same, but a failure is neither thrown nor logged: see {@link Deployments.report}. */
  attempt(desired: DesiredState | MakeDesired, reason: string, options?: ChangeOptions): Promise<Attempt>

  /** Adds a change that failed to the log. */
  report(attempt: Attempt): void

  /** Reads a plug-in of the network, by the rules and limits of the configuration. */
  download(url: string, signal: AbortSignal): Promise<Source>

  /** The server whose app is replaced by changes. */
  follow(server: Pick<RunningServer, 'replace'>): void

  /** From now on no change goes live, and one that is being made is ended. */
  refuse(): void

  /** Ends the changes. To be called when the server has ended, and with it the current app. */
  close(): Promise<void>
}

/** A change that can go live at once. */
export interface Prepared {
  /**
   * Keeps it, and puts it in the place of what is served; what is old ends after its last request.
   *
   * @throws `StateUnwritableError` if it cannot be kept, {@link ChangeRefusedError} if it is over: nothing has changed then.
   */
  commit(): Promise<Deployment>
  /** Gives back all that was made for it. Does nothing once it is over. */
  abort(): Promise<void>
}

/**
 * Makes what is desired from what is desired now. If it throws, nothing changes.
 *
 * @param reread - Reads the configuration again, and keeps the edits.
 */
export type MakeDesired = (
  now: DesiredState,
  reread: () => Promise<DesiredState>,
) => DesiredState | Promise<DesiredState>

/** Reads the configuration again. */
export const reload: MakeDesired = (_now, reread) => reread()

export interface ChangeOptions {
  /** Ends it, unless it is about to go live. */
  readonly signal?: AbortSignal | undefined
  /** Bytes of modules that it brings along, by digest. */
  readonly modules?: ReadonlyMap<string, Uint8Array> | undefined
  /** Whether an edit asks for it: then that is refused, else a state folder, if it asks for too much. */
  readonly isEdit?: boolean | undefined
  /** Whether it is because files have changed: if it fails, they are tried again when they change again. */
  readonly isOfFiles?: boolean | undefined
}

/** What came of a change. */
export interface Attempt {
  readonly record: ChangeRecord
  readonly deployment?: Deployment
  /** Why it is not live. */
  readonly error?: unknown
}

/** What there is before anything is served. */
export interface Surroundings {
  readonly log: FastifyBaseLogger
  /** Where calls are counted, if they are. */
  readonly meters?: Meters | undefined
}

/** How long the end waits for a change that is being made, and that may wait for a download. */
const OLD_APP_CLOSE_MS = 500

/** What lives as long as the deployments. */
export interface DeploymentParts {
  readonly files: FileLog
  readonly plugins: PluginTable
  readonly pool: RoutePool
  /** Keys of token issuers. */
  readonly keptKeys: JwtKeyCache
  readonly store: EditStore | undefined
}

/** @param first - What is served first: it is open already. */
export function deploymentsFrom(
  source: ConfigurationSource,
  first: Deployment,
  parts: DeploymentParts,
  surroundings: Surroundings,
): Deployments {
  return new LiveDeployments(source, first, parts, surroundings)
}

class LiveDeployments implements Deployments {
  readonly log = new ChangeLog()
  readonly #source: ConfigurationSource
  readonly #surroundings: Surroundings
  readonly #pool: RoutePool
  readonly #keptKeys: JwtKeyCache
  readonly #store: EditStore | undefined
  /** Options of the start: of what cannot be changed. */
  readonly #first: CheckedServerOptions
  #current: Deployment
  #plugins: PluginTable
  #files: FileLog
  #server: Pick<RunningServer, 'replace'> | undefined
  /** Ends when the last change that was asked for is over. */
  #last: Promise<unknown> = Promise.resolve()
  readonly #closed = new AbortController()

  constructor(
    source: ConfigurationSource,
    first: Deployment,
    { files, plugins, pool, keptKeys, store }: DeploymentParts,
    surroundings: Surroundings,
  ) {
    this.#source = source
    this.#current = first
    this.#first = first.options
    this.#files = files
    this.#plugins = plugins.only(usedBy(first))
    this.#pool = pool
    this.#keptKeys = keptKeys
    this.#store = store
    this.#surroundings = surroundings
    setMaxListeners(0, this.#closed.signal)
  }

  get current(): Deployment {
    return this.#current
  }

  get files(): FileLog {
    return this.#files
  }

  follow(server: Pick<RunningServer, 'replace'>): void {
    this.#server = server
  }

  async prepare(
    desired: DesiredState | MakeDesired,
    reason: string,
    { signal: asked, ...options }: ChangeOptions = {},
  ): Promise<Prepared> {
    const begun = performance.now()
    const signal = AbortSignal.any([this.#closed.signal, ...(asked ? [asked] : [])])
    setMaxListeners(0, signal) // each plug-in and each instance that is tried listens to it
    const end = await this.#enter(signal)
    const files = this.#files
    let isOver = false
    const leave = (isLive: boolean) => {
      if (isOver) return
      isOver = true
      // It may have failed for reasons of its own: who watches the files tries them.
      if (!isLive && !options.isOfFiles) this.#files = files
      end()
    }
    try {
      return await this.#make(desired, { ...options, signal }, { reason, begun, leave })
    } catch (error) {
      leave(false)
      throw error
    }
  }

  async apply(
    desired: DesiredState | MakeDesired,
    reason: string,
    options?: ChangeOptions,
  ): Promise<Deployment> {
    const attempt = await this.attempt(desired, reason, options)
    if (attempt.deployment) return attempt.deployment
    this.report(attempt)
    throw attempt.error
  }

  async attempt(
    desired: DesiredState | MakeDesired,
    reason: string,
    options?: ChangeOptions,
  ): Promise<Attempt> {
    const begun = performance.now()
    try {
      const prepared = await this.prepare(desired, reason, options)
      await nextTurn()
      const deployment = await prepared.commit()
      await nextTurn()
      return { deployment, record: deployment.record ?? this.#record(reason, begun) }
    } catch (thrown) {
      const error = toCodedError(thrown)
      const { code, message } = error
      return { record: { ...this.#record(reason, begun), ok: false, error: { code, message } }, error }
    }
  }

  report({ record, error }: Attempt): void {
    const { log, meters } = this.#surroundings
    this.log.add(record)
    meters?.reloads.count(record.ok ? 'ok' : 'refused')
    const { reason, revision, routes, kept, ms, warnings } = record
    if (record.ok) log.info({ reason, revision, routes, kept, ms }, 'changed')
    else if (error instanceof InternalError) log.error({ reason, err: error.cause }, 'not changed')
    else log.error({ reason, code: record.error?.code }, `not changed: ${record.error?.message}`)
    for (const warning of warnings) log.warn({ reason }, warning)
  }

  /**
   * Who has the token of the admin API names the server that is asked: ours of the environment goes only to those that
   * the configuration names too, else it could be had for the asking.
   */
  async download(url: string, signal: AbortSignal): Promise<Source> {
    const { options, desired } = this.#current
    const all = this.#source.sourceOptions(options)
    const own = desired.configuration.routes.map(({ given }) => originOf(sourceOf(given)))
    const maxBytes = Math.min(all.maxBytes ?? options.uploadLimit, options.uploadLimit)
    const authorization = own.includes(originOf(url)) ? all.authorization : undefined
    return readSource(url, { ...all, authorization, maxBytes, signal })
  }

  refuse(): void {
    this.#closed.abort(new ChangeRefusedError('the server is ending'))
  }

  async close(): Promise<void> {
    this.refuse()
    await Promise.race([this.#last, sleep(OLD_APP_CLOSE_MS, undefined, { ref: false })])
    await this.#pool.close()
  }

  /** Waits until the changes before are over. @returns what says that this one is. */
  async #enter(signal: AbortSignal): Promise<() => void> {
    const before = this.#last
    let leave: () => void = () => undefined
    const turn = new Promise<void>((resolve) => {
      leave = resolve
    })
    this.#last = before.then(() => turn)
    try {
      await unlessAborted(before, signal)
      return leave
    } catch (error) {
      leave()
      throw error
    }
  }

  async #make(
    desired: DesiredState | MakeDesired,
    options: ChangeOptions & { readonly signal: AbortSignal },
    change: { readonly reason: string; readonly begun: number; readonly leave: (isLive: boolean) => void },
  ): Promise<Prepared> {
    const { signal } = options
    const { log, meters } = this.#surroundings
    const plan = await this.#plan(desired, options)
    await nextTurn()
    const { options: kept, warnings } = keepWhatStays(plan.options, this.#first)
    raiseMemoryCeiling(pagesOf(plan))
    const made = await createApp({ ...kept, trial: true, meters, signal }, log, this.#pool, this.#keptKeys)
    let isOver = false
    /** @returns Whether it was not over before. */
    const end = () => {
      const isFirst = !isOver
      isOver = true
      signal.removeEventListener('abort', onAbort)
      return isFirst
    }
    const giveUp = async () => {
      await made.app.close().finally(() => change.leave(false))
    }
    const abort = async () => {
      if (end()) await giveUp()
    }
    const onAbort = () =>
      void abort().catch((error) => log.error({ err: error }, 'what was prepared did not close'))
    if (signal.aborted) await abort()
    signal.throwIfAborted()
    signal.addEventListener('abort', onAbort)
    return {
      abort,
      commit: async () => {
        signal.throwIfAborted() // for the last time: from here on it goes live
        if (!end()) throw new ChangeRefusedError('it was committed or aborted before')
        try {
          await this.#store?.write(plan.edits, plan.plugins.modules)
        } catch (error) {
          await giveUp()
          throw error
        }
        const deployment = this.#goLive(plan, made, [...plan.notes, ...warnings], change)
        change.leave(true)
        return deployment
      },
    }
  }

  /** What is to be served, with the plug-ins that it has, and warnings about it. */
  async #plan(
    desired: DesiredState | MakeDesired,
    { signal, modules = new Map(), isEdit = false }: ChangeOptions & { readonly signal: AbortSignal },
  ): Promise<Resolved & { desired: DesiredState; plugins: PluginTable; notes: readonly string[] }> {
    const place = { isServing: true, signal, log: this.#surroundings.log }
    const now = this.#current
    let plugins = this.#plugins.only(usedBy(now))
    const reread = () =>
      readSettled((files) => {
        this.#files = files
        plugins = new PluginTable()
        return this.#reread({ ...place, onFile: (path) => files.note(path), plugins })
      }, signal)
    const made = typeof desired === 'function' ? await desired(now.desired, reread) : desired
    signal.throwIfAborted()
    if (made.revision !== now.revision)
      throw new ChangeRefusedError(
        `it was made from revision ${made.revision}, and ${now.revision} is served`,
      )
    for (const [digest, bytes] of modules) plugins.modules.set(digest, bytes)
    const isReread = made.configuration !== now.desired.configuration
    const failures: unknown[] = []
    const resolved = await resolve(made, {
      ...place,
      ...resolvedBy(this.#store, isEdit),
      plugins,
      before: isReread ? undefined : now,
      failed: (error) => failures.push(error),
    })
    if (failures.length > 0) throw together(failures)
    const notes = [...(isReread ? made.configuration.warnings : []), ...made.warnings, ...resolved.warnings]
    return { ...resolved, desired: { ...made, edits: resolved.edits, warnings: [] }, plugins, notes }
  }

  async #reread(reading: ReadingOptions): Promise<DesiredState> {
    const failures: unknown[] = []
    const configuration = await this.#source.read(reading, (error) => failures.push(error))
    if (!configuration || failures.length > 0) throw together(failures)
    const { revision, edits } = this.#current.desired
    return this.#store
      ? desiredState(configuration, edits, revision)
      : { revision, configuration, edits, warnings: [] }
  }

  #goLive(
    plan: Resolved & { readonly desired: DesiredState; readonly plugins: PluginTable },
    { app, routes: served, kept }: Awaited<ReturnType<typeof createApp>>,
    warnings: readonly string[],
    { reason, begun }: { readonly reason: string; readonly begun: number },
  ): Deployment {
    const before = this.#current
    const revision = before.revision + 1
    const { options, routes, edits } = plan
    const desired = { ...plan.desired, revision }
    const live = { options, routes, edits, warnings: plan.warnings, desired, app, served, revision }
    this.#current = live
    this.#plugins = plan.plugins.only(usedBy(live))
    const record = { ...this.#record(reason, begun), kept, warnings }
    this.#current = { ...live, record }
    const { log } = this.#surroundings
    if (options.logLevel !== before.options.logLevel) log.level = options.logLevel // a program's own log may have another
    // What was begun may take its time to end; nobody waits for it.
    this.#server?.replace(app).catch((error) => log.error({ err: error }, 'what was replaced did not close'))
    this.report({ record })
    return this.#current
  }

  #record(reason: string, begun: number): ChangeRecord {
    return {
      at: new Date().toISOString(),
      reason,
      ok: true,
      revision: this.#current.revision,
      ms: Math.round(performance.now() - begun),
      routes: this.#current.served.length,
      kept: 0,
      warnings: [],
    }
  }
}

/** How versions are resolved that the store has, and whose fault it is if they cannot be. */
export function resolvedBy(store: EditStore | undefined, isEdit: boolean) {
  return {
    refuse: isEdit || !store ? refuseEdit : refuseState(store.place),
    module: (digest: string) =>
      store ? store.modules.get(digest) : Promise.reject(new Error(`module ${digest} was not kept`)),
  }
}

/** Digests of the versions that routes have, and of those that the configuration has. */
function usedBy({ routes, desired }: Pick<Deployment, 'routes' | 'desired'>): ReadonlySet<string> {
  const used = routes.flatMap(({ target: { live, next } }) => [
    live.digest,
    next?.version.digest ?? live.digest,
  ])
  return new Set([...used, ...desired.configuration.routes.map(({ version }) => version.digest)])
}

function originOf(text: string): string | undefined {
  return isUrl(text) && URL.canParse(text) ? new URL(text).origin : undefined
}

/** Errors that have a code are meant; others are bugs of ours. */
function toCodedError(thrown: unknown): Error & { readonly code: string } {
  if (hasCode(thrown)) return thrown
  return new InternalError({ cause: thrown })
}

function hasCode(thrown: unknown): thrown is Error & { readonly code: string } {
  return thrown instanceof Error && 'code' in thrown && String(thrown.code).startsWith('WASM_SERVE_')
}
