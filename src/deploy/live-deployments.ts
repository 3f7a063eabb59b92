import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { ChangeRefusedError, InternalError } from '../errors/errors.ts'
import { errorFields, hasOwnCode } from '../errors/failure.ts'
import type { Meters } from '../observe/metrics.ts'
import { nextTurn } from '../platform/event-loop.ts'
import { Mutex } from '../platform/mutex.ts'
import { explainLimit } from '../platform/system-errors.ts'
import { readSource, type Source } from '../plugin/source/source.ts'
import { isUrl } from '../plugin/source/url.ts'
import type { RunningServer } from '../server/server.ts'
import type { ConfigurationSource } from './configuration.ts'
import type {
  Attempt,
  Behind,
  ChangeOptions,
  ChangeRecord,
  Deployment,
  DeploymentContext,
  Deployments,
  MakeDesired,
  Prepared,
} from './deployments.ts'
import { type DesiredState, desiredState, sourceOf } from './desired-state.ts'
import { type FileSnapshot, readSettled } from './file-snapshot.ts'
import { type LoadedVersion, PluginTable, type ReadingOptions } from './loader.ts'
import type { OwnReplica, ResolvedRoutes } from './replica.ts'
import { combineErrors } from './resolve.ts'
import type { EditStore } from './state-folder.ts'

/** An id of this process. */
const BOOT = Math.floor(performance.timeOrigin).toString(36)

/** The maximum number of records of changes. */
const KEPT_RECORDS = 50

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
  log: Deployments['log'] = { records: [], applied: 0, refused: 0 }
  readonly meters: Meters | undefined
  current: Deployment
  files: FileSnapshot
  tags: ReadonlyMap<string, string>
  #failedReload: Behind | undefined
  #failedBuild: Behind | undefined
  readonly #source: ConfigurationSource
  readonly #context: DeploymentContext
  readonly #replica: OwnReplica
  readonly #store: EditStore | undefined
  readonly #changes = new Mutex()
  readonly #closed = new AbortController()
  /** The plug-ins of the last reload whose older versions stay, and why. */
  #kept: ReadonlyMap<string, unknown> = new Map()

  constructor(
    source: ConfigurationSource,
    first: Deployment,
    { files, tags, replica, store }: DeploymentParts,
    context: DeploymentContext,
  ) {
    this.#source = source
    this.current = first
    this.files = files
    this.tags = tags
    this.#replica = replica
    this.#store = store
    this.#context = context
    this.meters = context.meters
    setMaxListeners(0, this.#closed.signal)
  }

  get tag(): string {
    return this.#context.shared?.tag ?? `${BOOT}-${this.current.revision}`
  }

  get revision(): number {
    const { revision } = this.current
    return this.#context.shared?.revisionOf(revision) ?? revision
  }

  get applied(): Deployments['applied'] {
    const { shared } = this.#context
    return shared && ((signal) => shared.applied(signal))
  }

  get behind(): Behind | undefined {
    return this.#failedBuild ?? this.#failedReload
  }

  noteBuild(failure: (Error & { readonly code: string }) | undefined): void {
    this.#failedBuild = failure && toBehind(this.#failedBuild, failure, 'build', 'build')
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
    const files = this.files
    const leave = (failure?: unknown) => {
      if (this.files !== files) {
        const isLive = failure === undefined
        if (isLive) this.#failedReload = this.#keptFor(reason)
        else if (!signal.aborted)
          this.#failedReload = toBehind(
            this.#failedReload,
            failure,
            reason,
            options.digests ? 'tags' : 'files',
          )
        // The watcher has to try what has changed in the files.
        if (!isLive && (signal.aborted || options.digests)) this.files = files
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
    if (!shared) return this.#attempt(desired, reason, options)
    return shared.change(desired, reason, options, (...change) => this.#attempt(...change))
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
      return { deployment, record: deployment.record ?? this.#record(reason, begun, deployment) }
    } catch (thrown) {
      const error = toCodedError(thrown)
      const { code, message } = error
      return {
        record: { ...this.#record(reason, begun, this.current), ok: false, error: { code, message } },
        error,
      }
    }
  }

  report({ record, error }: Attempt): void {
    const { log } = this.#context
    const { records, applied, refused } = this.log
    this.log = {
      records: [record, ...records.slice(0, KEPT_RECORDS - 1)],
      applied: applied + (record.ok ? 1 : 0),
      refused: refused + (record.ok ? 0 : 1),
    }
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
    const { options, sources, desired } = this.current
    const own = desired.configuration.routes.map(({ configured }) => originOf(sourceOf(configured)))
    const maxBytes = Math.min(sources.maxBytes ?? options.uploadLimit, options.uploadLimit)
    const authorization = own.includes(originOf(url)) ? sources.authorization : undefined
    return readSource(url, { ...sources, authorization, maxBytes, signal })
  }

  async resolveTag(reference: string, signal: AbortSignal): Promise<string> {
    const { resolveSource } = await import('../plugin/oci/pull.ts') // loaded on demand
    const { pulling, timeoutMs } = this.current.sources
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
    const now = this.current
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
    if (signal.aborted) await this.#replica.abort(revision)
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
        this.tags = reread?.tags ?? this.tags
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
      this.files = files
      const plugins = new PluginTable()
      plugins.compiles = this.#replica.compiles
      const tags = new Map<string, string>()
      found({ plugins, tags })
      const failures: unknown[] = []
      const kept = new Map<string, unknown>()
      this.#kept = kept
      const reading: ReadingOptions = {
        ...{ isServing: true, signal, log: this.#context.log, digests, plugins },
        onFile: (path) => files.note(path),
        onTag: (reference, digest) => tags.set(reference, digest),
        ...(this.#context.isDevelopment && {
          instead: (name: string, failure: unknown) => {
            const served = this.#served(name)
            if (served) kept.set(name, failure)
            return served
          },
        }),
      }
      const configuration = await this.#source.read(reading, (error) => failures.push(error))
      if (!configuration || failures.length > 0) throw combineErrors(failures)
      const { revision, edits } = this.current.desired
      return this.#store
        ? desiredState(configuration, edits, revision)
        : { revision, configuration, edits, warnings: [] }
    }, signal)
  }

  /** The version of a plug-in that is served. */
  #served(name: string): LoadedVersion | undefined {
    const found = this.current.routes.find(({ target }) => target.name === name)
    return found && { plugin: found.plugin, version: found.target.live }
  }

  /** Why some plug-ins of the configuration that is read are older than their files; undefined if none is. */
  #keptFor(reason: string): Behind | undefined {
    const kept = this.#kept
    if (kept.size === 0) return undefined
    const failure = toCodedError(combineErrors([...kept.values()]))
    const plugins = [...kept.keys()]
    this.#context.log.error({ reason, code: failure.code, plugins }, `not changed: ${failure.message}`)
    return { ...toBehind(this.#failedReload, failure, reason, 'plugins'), plugins }
  }

  #goLive(
    { resolved, routes: served, kept }: ResolvedRoutes,
    warnings: readonly string[],
    { reason, begun }: CurrentChange,
  ): Deployment {
    const { options, routes, sources, edits, warnings: skipped } = resolved
    const revision = this.current.revision + 1
    const desired = { ...resolved.desired, revision }
    const { app } = this.#replica
    const live = { options, routes, sources, edits, warnings: skipped, desired, app, served, revision }
    const record = { ...this.#record(reason, begun, live), kept, warnings }
    this.current = { ...live, record }
    this.report({ record })
    return this.current
  }

  #record(reason: string, begun: number, { revision, served }: Deployment): ChangeRecord {
    return {
      at: new Date().toISOString(),
      reason,
      ok: true,
      revision: this.#context.shared?.revisionOf(revision) ?? revision,
      ms: Math.round(performance.now() - begun),
      routes: served.length,
      kept: 0,
      warnings: [],
    }
  }
}

function toBehind(before: Behind | undefined, failure: unknown, reason: string, of: Behind['of']): Behind {
  const { code, message } = toCodedError(failure)
  return { since: before?.since ?? new Date().toISOString(), reason, code, message, of }
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
