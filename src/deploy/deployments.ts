import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { ChangeRefusedError, InternalError } from '../errors/errors.ts'
import { errorFields, hasOwnCode } from '../errors/failure.ts'
import type { Meters } from '../observe/metrics.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { nextTurn } from '../platform/event-loop.ts'
import { Mutex } from '../platform/mutex.ts'
import { explainLimit } from '../platform/system-errors.ts'
import { readSource, type Source } from '../plugin/source/source.ts'
import { isUrl } from '../plugin/source/url.ts'
import type { RunningServer } from '../server/server.ts'
import type { ConfigurationSource } from './configuration.ts'
import { ChangeLog, type ChangeRecord, type DesiredState, desiredState, sourceOf } from './desired-state.ts'
import { type FileSnapshot, readSettled } from './file-snapshot.ts'
import { PluginTable, type ReadingOptions } from './loader.ts'
import { combineErrors } from './plan.ts'
import type { OwnReplica, PreparedRoutes, ResolvedRoutes } from './replica.ts'
import type { Resolved } from './resolve.ts'
import type { FirstPlan } from './resolver.ts'
import type { EditStore } from './state-folder.ts'

/** A deployment: the routes that are served. */
export interface Deployment extends Resolved {
  /** 1 at the start; each change adds 1. */
  readonly revision: number
  readonly desired: DesiredState
  readonly app: FastifyInstance
  /** In the order of {@link Resolved.routes}. */
  readonly served: readonly ServedRoute[]
  /** The result of the change that made it; undefined for the first. */
  readonly record?: ChangeRecord | undefined
}

/**
 * The only place that changes the served routes: start, reload, `--watch`, SIGHUP and the admin API apply a desired
 * state. A change is completed before it becomes visible: it is resolved, loaded, started in a throwaway thread, and
 * passes its smoke request. Then it replaces the current deployment in one step. Requests in flight finish on the old
 * one. If anything fails, the old one stays. Changes run one after another.
 */
export interface Deployments {
  readonly current: Deployment
  /** Changes with each change. No other process has the same tag for another state. */
  readonly tag: string
  /** The number of the current state for operators: the fleet's, if there is one. */
  readonly revision: number
  /** The results of recent changes. */
  readonly log: ChangeLog
  /** The call metrics, if they are enabled. */
  readonly meters: Meters | undefined
  /** The files of the configuration, or those of the last reload attempt. */
  readonly files: FileSnapshot
  /** The digests of the tags of registries that are served, by reference. */
  readonly tags: ReadonlyMap<string, string>
  /** Why the configuration is not served as it was read last; undefined if it is. */
  readonly behind: FailedReload | undefined

  /**
   * Prepares a desired state, after earlier changes. Later changes wait until it is committed or aborted.
   *
   * @param desired - Derived from the current desired state, or a function that derives it when its turn comes.
   * @throws the reason that it cannot be served; {@link ChangeRefusedError} if it was derived from another revision, or
   * the server is shutting down.
   */
  prepare(desired: DesiredState | MakeDesired, reason: string, options?: ChangeOptions): Promise<Prepared>

  /**
   * Prepares and commits. The result is logged.
   *
   * @throws as {@link Deployments.prepare} and {@link Prepared.commit}.
   */
  apply(desired: DesiredState | MakeDesired, reason: string, options?: ChangeOptions): Promise<Deployment>

  /** Applies a change, and returns a failure instead of throwing or logging it: see {@link Deployments.report}. */
  attempt(desired: DesiredState | MakeDesired, reason: string, options?: ChangeOptions): Promise<Attempt>

  /** Logs a failed change. */
  report(attempt: Attempt): void

  /** Downloads a plug-in under the rules and limits of the configuration. */
  download(url: string, signal: AbortSignal): Promise<Source>

  /** Reads the bytes of a module under the policies of the configuration. @param bundle - Its detached signature. */
  readUpload(bytes: Uint8Array, bundle: Uint8Array | undefined, signal: AbortSignal): Promise<Source>

  /** The digest that the tag of a reference has now. @throws the errors of the registry. */
  resolveTag(reference: string, signal: AbortSignal): Promise<string>

  /**
   * Resolves when all nodes of the fleet that report serve the newest revision; undefined without a fleet.
   *
   * @returns warnings.
   * @throws `FleetNotAppliedError`
   */
  readonly applied?: ((signal: AbortSignal) => Promise<readonly string[]>) | undefined

  /** Attaches the server whose app changes replace. */
  follow(server: Pick<RunningServer, 'replace'>): void

  /** Refuses further changes and aborts the current one. */
  refuse(): void

  /** Ends all changes. Call it after the server, and with it the current app, has closed. */
  close(): Promise<void>
}

/** A change that is ready to go live. */
interface Prepared extends PreparedRoutes {
  /**
   * Persists the change and makes it live. The old deployment ends after its last request.
   *
   * @throws `StateUnwritableError` if it cannot be persisted, {@link ChangeRefusedError} if it has ended: nothing has changed then.
   */
  commit(): Promise<Deployment>
  /** Releases everything that was prepared. Does nothing after the end. */
  abort(): Promise<void>
}

/**
 * Derives the desired state from the current one. If it throws, nothing changes.
 *
 * @param reread - Reads the configuration again and keeps the edits.
 */
export type MakeDesired = (
  now: DesiredState,
  reread: () => Promise<DesiredState>,
) => DesiredState | Promise<DesiredState>

/** Reads the configuration again. */
export const reload: MakeDesired = (_now, reread) => reread()

export interface ChangeOptions {
  /** Aborts the change, unless it is about to go live. */
  readonly signal?: AbortSignal | undefined
  /** Bytes of new modules, by digest. */
  readonly modules?: ReadonlyMap<string, Uint8Array> | undefined
  /** Whether an edit requests it: then a forbidden option is the edit's fault, else the state folder's. */
  readonly isEdit?: boolean | undefined
  /** New digests of tags, by reference. After a failure, they are found again. */
  readonly digests?: ReadonlyMap<string, string> | undefined
  /** Who requests it. */
  readonly by?: string | undefined
  /** Where its edits are stored. Default: where those of the deployments are. */
  readonly store?: Pick<EditStore, 'write'> | undefined
}

/** The result of a change. */
export interface Attempt {
  readonly record: ChangeRecord
  readonly deployment?: Deployment
  /** The reason that it is not live. */
  readonly error?: unknown
}

/** A reload that has failed. */
interface FailedReload {
  /** The first failure since the configuration was served as it was read, as ISO 8601. */
  readonly since: string
  /** The trigger of the last attempt. */
  readonly reason: string
  /** Why it has failed. */
  readonly code: string
  readonly message: string
  /** Whether new digests of tags triggered it. */
  readonly isOfTags: boolean
}

/** What exists before the first deployment. */
export interface DeploymentContext {
  readonly log: FastifyBaseLogger
  /** The call metrics, if they are enabled. */
  readonly meters?: Meters | undefined
  /** Serves the first state, and then others. Default: in this process. */
  readonly open?: ((first: FirstPlan) => Promise<OwnReplica>) | undefined
  /** Other servers make the same changes. Default: there are none. */
  readonly shared?: SharedChanges | undefined
}

/** Changes of several servers, one after another. */
export interface SharedChanges {
  /** @see {@link Deployments.tag} */
  readonly tag: string
  /** The number for operators of a deployment. */
  revisionOf(deployment: number): number
  /**
   * Makes a change that all servers will serve.
   *
   * @param make - Makes it here.
   */
  change(
    desired: DesiredState | MakeDesired,
    reason: string,
    options: ChangeOptions,
    make: Deployments['attempt'],
  ): Promise<Attempt>
  /** @see {@link Deployments.applied} */
  applied(signal: AbortSignal): Promise<readonly string[]>
  /** Ends the current change, and accepts no more. */
  stop(): void
  close(): Promise<void>
}

/** An id of this process. */
const BOOT = Math.floor(performance.timeOrigin).toString(36)

/** How long a shutdown waits for a change in preparation, which may be downloading. */
const CHANGE_END_MS = 500

/** Everything that lives as long as the deployments. */
interface DeploymentParts {
  readonly files: FileSnapshot
  readonly tags: ReadonlyMap<string, string>
  readonly replica: OwnReplica
  readonly store: EditStore | undefined
}

/** @param first - The first deployment, already open. */
export function deploymentsFrom(
  source: ConfigurationSource,
  first: Deployment,
  parts: DeploymentParts,
  context: DeploymentContext,
): Deployments {
  return new LiveDeployments(source, first, parts, context)
}

/** A configuration that a change has read again. */
interface Reread {
  readonly plugins: PluginTable
  /** The digests of tags. */
  readonly tags: ReadonlyMap<string, string>
}

/** A change between its preparation and its end. */
interface CurrentChange {
  readonly reason: string
  readonly begun: number
  /** Call it at the end. */
  readonly leave: (failure?: unknown) => void
}

class LiveDeployments implements Deployments {
  readonly log = new ChangeLog()
  readonly #source: ConfigurationSource
  readonly #context: DeploymentContext
  readonly #replica: OwnReplica
  readonly #store: EditStore | undefined
  #current: Deployment
  #files: FileSnapshot
  #tags: ReadonlyMap<string, string>
  #behind: FailedReload | undefined
  readonly #changes = new Mutex()
  readonly #closed = new AbortController()

  constructor(
    source: ConfigurationSource,
    first: Deployment,
    { files, tags, replica, store }: DeploymentParts,
    context: DeploymentContext,
  ) {
    this.#source = source
    this.#current = first
    this.#files = files
    this.#tags = tags
    this.#replica = replica
    this.#store = store
    this.#context = context
    setMaxListeners(0, this.#closed.signal)
  }

  get current(): Deployment {
    return this.#current
  }

  get tag(): string {
    return this.#context.shared?.tag ?? `${BOOT}-${this.#current.revision}`
  }

  get revision(): number {
    const { revision } = this.#current
    return this.#context.shared?.revisionOf(revision) ?? revision
  }

  get files(): FileSnapshot {
    return this.#files
  }

  get tags(): ReadonlyMap<string, string> {
    return this.#tags
  }

  get behind(): FailedReload | undefined {
    return this.#behind
  }

  get meters(): Meters | undefined {
    return this.#context.meters
  }

  get applied(): Deployments['applied'] {
    const { shared } = this.#context
    return shared && ((signal) => shared.applied(signal))
  }

  follow(server: Pick<RunningServer, 'replace'>): void {
    this.#replica.follow?.(server)
  }

  async prepare(
    desired: DesiredState | MakeDesired,
    reason: string,
    { signal: asked, ...options }: ChangeOptions = {},
  ): Promise<Prepared> {
    const begun = performance.now()
    const signal = AbortSignal.any([this.#closed.signal, ...(asked ? [asked] : [])])
    setMaxListeners(0, signal) // each plug-in and each trial instance listens to it
    const end = await this.#changes.enter(signal)
    const files = this.#files
    let isOver = false
    const leave = (failure?: unknown) => {
      if (isOver) return
      isOver = true
      if (this.#files !== files) {
        const isLive = failure === undefined
        if (isLive) this.#behind = undefined
        else if (!signal.aborted) this.#behind = this.#behindFor(failure, reason, options)
        // The watcher has to try what has changed in the files.
        if (!isLive && (signal.aborted || options.digests)) this.#files = files
      }
      end()
    }
    try {
      return await this.#make(desired, { ...options, signal }, { reason, begun, leave })
    } catch (error) {
      leave(error)
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

  attempt(
    desired: DesiredState | MakeDesired,
    reason: string,
    options: ChangeOptions = {},
  ): Promise<Attempt> {
    const { shared } = this.#context
    const make: Deployments['attempt'] = (...change) => this.#attempt(...change)
    return shared ? shared.change(desired, reason, options, make) : make(desired, reason, options)
  }

  async #attempt(
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
    const { log, meters } = this.#context
    this.log.add(record)
    meters?.reloads.count(record.ok ? 'ok' : 'refused')
    const { reason, revision, routes, kept, ms, warnings } = record
    if (record.ok) log.info({ reason, revision, routes, kept, ms }, 'changed')
    else if (error instanceof InternalError) log.error({ reason, err: error.cause }, 'not changed')
    else log.error({ reason, code: record.error?.code }, `not changed: ${record.error?.message}`)
    for (const warning of warnings) log.warn({ reason }, warning)
  }

  /**
   * The holder of an admin token chooses the server to ask. So credentials of the environment go only to servers that
   * the configuration names; else they could be sent anywhere on request.
   */
  async download(url: string, signal: AbortSignal): Promise<Source> {
    const { options, desired } = this.#current
    const all = this.#source.sourceOptions(options)
    const own = desired.configuration.routes.map(({ configured }) => originOf(sourceOf(configured)))
    const maxBytes = Math.min(all.maxBytes ?? options.uploadLimit, options.uploadLimit)
    const authorization = own.includes(originOf(url)) ? all.authorization : undefined
    return readSource(url, { ...all, authorization, maxBytes, signal })
  }

  async readUpload(bytes: Uint8Array, bundle: Uint8Array | undefined, signal: AbortSignal): Promise<Source> {
    return readSource(bytes, { ...this.#source.sourceOptions(this.#current.options), bundle, signal })
  }

  async resolveTag(reference: string, signal: AbortSignal): Promise<string> {
    const { resolveSource } = await import('../plugin/oci/pull.ts') // loaded on demand
    const { pulling, timeoutMs } = this.#source.sourceOptions(this.#current.options)
    return resolveSource(reference, { ...pulling, timeoutMs, signal })
  }

  refuse(): void {
    this.#context.shared?.stop() // first: what a shutdown aborts is no refusal of what others serve
    this.#closed.abort(new ChangeRefusedError('the server is shutting down'))
  }

  async close(): Promise<void> {
    this.refuse()
    await this.#context.shared?.close()
    await Promise.race([this.#changes.idle, sleep(CHANGE_END_MS, undefined, { ref: false })])
    await this.#replica.close()
  }

  async #make(
    desired: DesiredState | MakeDesired,
    options: ChangeOptions & { readonly signal: AbortSignal },
    change: CurrentChange,
  ): Promise<Prepared> {
    const { signal, modules, isEdit, store = this.#store } = options
    const { log } = this.#context
    const now = this.#current
    let reread: Reread | undefined
    const read = () =>
      this.#reread(options, (found) => {
        reread = found
      })
    const made = typeof desired === 'function' ? await desired(now.desired, read) : desired
    signal.throwIfAborted()
    if (made.revision !== now.revision)
      throw new ChangeRefusedError(
        `it was derived from revision ${made.revision}, but the current revision is ${now.revision}`,
      )
    const revision = now.revision + 1
    const { configuration, edits } = made
    const state = { revision, configuration, edits, plugins: reread?.plugins, modules, isEdit }
    const prepared = await this.#replica.prepare(state, change.reason, signal)
    const { resolved } = prepared
    const notes = [
      ...(configuration === now.desired.configuration ? [] : configuration.warnings),
      ...[...made.warnings, ...resolved.warnings, ...resolved.waiting],
    ]
    let isOver = false
    /** @returns whether this call ended it. */
    const end = () => {
      const isFirst = !isOver
      isOver = true
      signal.removeEventListener('abort', onAbort)
      return isFirst
    }
    const giveUp = async (failure: unknown) => {
      await this.#replica.abort(revision).finally(() => change.leave(failure))
    }
    const abort = async () => {
      if (end()) await giveUp(signal.reason ?? new ChangeRefusedError('it was aborted'))
    }
    const onAbort = () =>
      void abort().catch((error) => log.error(errorFields(error), 'a prepared deployment failed to close'))
    if (signal.aborted) await abort()
    signal.throwIfAborted()
    signal.addEventListener('abort', onAbort)
    return {
      routes: prepared.routes,
      kept: prepared.kept,
      abort,
      commit: async () => {
        signal.throwIfAborted() // the last check: after this it goes live
        if (!end()) throw new ChangeRefusedError('it was already committed or aborted')
        try {
          await store?.write(resolved.edits, resolved.plugins.modules)
          await this.#replica.commit(revision)
        } catch (error) {
          await giveUp(error)
          throw error
        }
        this.#tags = reread?.tags ?? this.#tags
        const deployment = this.#goLive(prepared, notes, change)
        change.leave()
        return deployment
      },
    }
  }

  /** Reads the configuration again, and keeps the edits. */
  #reread(
    { signal, digests }: ChangeOptions & { readonly signal: AbortSignal },
    found: (reread: Reread) => void,
  ): Promise<DesiredState> {
    return readSettled(async (files) => {
      this.#files = files
      const plugins = new PluginTable()
      plugins.compiles = this.#replica.compiles
      const tags = new Map<string, string>()
      found({ plugins, tags })
      const failures: unknown[] = []
      const reading: ReadingOptions = {
        ...{ isServing: true, signal, log: this.#context.log, digests, plugins },
        onFile: (path) => files.note(path),
        onTag: (reference, digest) => tags.set(reference, digest),
      }
      const configuration = await this.#source.read(reading, (error) => failures.push(error))
      if (!configuration || failures.length > 0) throw combineErrors(failures)
      const { revision, edits } = this.#current.desired
      return this.#store
        ? desiredState(configuration, edits, revision)
        : { revision, configuration, edits, warnings: [] }
    }, signal)
  }

  #behindFor(failure: unknown, reason: string, { digests }: ChangeOptions): FailedReload {
    const { code, message } = toCodedError(failure)
    const since = this.#behind?.since ?? new Date().toISOString()
    return { since, reason, code, message, isOfTags: digests !== undefined }
  }

  #goLive(
    { resolved, routes: served, kept }: ResolvedRoutes,
    warnings: readonly string[],
    { reason, begun }: CurrentChange,
  ): Deployment {
    const { options, routes, edits } = resolved
    const revision = this.#current.revision + 1
    const desired = { ...resolved.desired, revision }
    const { app } = this.#replica
    const live = { options, routes, edits, warnings: resolved.warnings, desired, app, served, revision }
    this.#current = live
    const record = { ...this.#record(reason, begun), kept, warnings }
    this.#current = { ...live, record }
    this.report({ record })
    return this.#current
  }

  #record(reason: string, begun: number): ChangeRecord {
    return {
      at: new Date().toISOString(),
      reason,
      ok: true,
      revision: this.revision,
      ms: Math.round(performance.now() - begun),
      routes: this.#current.served.length,
      kept: 0,
      warnings: [],
    }
  }
}

function originOf(text: string): string | undefined {
  return isUrl(text) && URL.canParse(text) ? new URL(text).origin : undefined
}

/** Errors with a code, and limits of the system, are expected; all others are bugs in wasm-serve. */
function toCodedError(thrown: unknown): Error & { readonly code: string } {
  const limit = explainLimit(thrown)
  if (hasOwnCode(thrown) && (limit === undefined || thrown.statusCode !== 500)) return thrown
  return limit === undefined
    ? new InternalError({ cause: thrown })
    : new ChangeRefusedError(limit, { cause: thrown })
}
