import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { ChangeRefusedError } from '../errors/errors.ts'
import type { Meters } from '../observe/metrics.ts'
import type { ServedRoute } from '../options/served-route.ts'
import type { Source } from '../plugin/source/source.ts'
import type { RunningServer } from '../server/server.ts'
import type { DesiredState } from './desired-state.ts'
import type { FileSnapshot } from './file-snapshot.ts'
import type { OwnReplica, PreparedRoutes } from './replica.ts'
import type { FirstPlan, Resolved } from './resolve.ts'
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
  /** Why what is served is older than its sources; undefined if it is not. */
  readonly behind: Behind | undefined

  /** Notes that the last build of the sources has failed, or, if undefined, has not. */
  noteBuild(failure: (Error & { readonly code: string }) | undefined): void

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
export interface Prepared extends PreparedRoutes {
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

/** Records of changes, the newest first: the last 50, and the number of all. */
interface ChangeLog {
  readonly records: readonly ChangeRecord[]
  readonly applied: number
  readonly refused: number
}

/** The result of a change, including refused ones. */
export interface ChangeRecord {
  /** The time of its end, as ISO 8601. */
  readonly at: string
  /** The trigger: `SIGHUP`, `files`, or the request to the admin API. */
  readonly reason: string
  /** Whether it is live. */
  readonly ok: boolean
  /** The revision that is live afterwards; it grows with each change. */
  readonly revision: number
  readonly ms: number
  /** Number of routes afterwards. */
  readonly routes: number
  /** Number of route plug-ins that kept their instances. */
  readonly kept: number
  /** Warnings. */
  readonly warnings: readonly string[]
  /** The reason that it is not live. */
  readonly error?: { readonly code: string; readonly message: string }
}

/** What became of a change. */
export interface Attempt {
  readonly record: ChangeRecord
  readonly deployment?: Deployment
  /** The reason that it is not live. */
  readonly error?: unknown
}

/** A reload or a build that has failed, as a whole or for some plug-ins. */
export interface Behind {
  /** The first failure since the sources were served as they were read, as ISO 8601. */
  readonly since: string
  /** The trigger of the last attempt. */
  readonly reason: string
  /** Why it has failed. */
  readonly code: string
  readonly message: string
  /** What it was about, and so who tries it again. */
  readonly of: 'files' | 'tags' | 'plugins' | 'build'
  /** The names of the plug-ins whose older versions are served; undefined: all. */
  readonly plugins?: readonly string[] | undefined
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
  /**
   * Whether a developer changes the sources: then a plug-in that fails to load does not prevent the reload of others, and routes
   * whose plug-in is {@link Deployments.behind} answer why. Default: no.
   */
  readonly isDevelopment?: boolean | undefined
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
