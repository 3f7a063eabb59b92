import { FleetChangedError } from '../../errors/errors.ts'
import type {
  Attempt,
  ChangeOptions,
  Deployment,
  Deployments,
  MakeDesired,
  Prepared,
} from '../deployments.ts'
import { reload } from '../deployments.ts'
import type { DesiredState } from '../desired-state.ts'
import type { FleetNode } from './fleet-node.ts'

/** How often a change is made again because another one came first. */
const MAX_TRIES = 20

/**
 * The deployments of a node. A change is one of the fleet: it is derived from the newest revision, prepared here,
 * stored, and then goes live here and everywhere. A reload reads the options of this node again, and changes only it.
 */
export class FleetDeployments implements Deployments {
  readonly #local: Deployments
  readonly #node: FleetNode
  readonly #renew: () => Promise<void>

  /** @param renew - Reads the options of this node again. */
  constructor(local: Deployments, node: FleetNode, renew: () => Promise<void>) {
    this.#local = local
    this.#node = node
    this.#renew = renew
  }

  get current() {
    return this.#local.current
  }

  get revision() {
    return this.#local.revision
  }

  get log() {
    return this.#local.log
  }

  get meters() {
    return this.#local.meters
  }

  get files() {
    return this.#local.files
  }

  get tags() {
    return this.#local.tags
  }

  get behind() {
    return this.#local.behind
  }

  get tag() {
    return this.#node.tag
  }

  prepare(desired: DesiredState | MakeDesired, reason: string, options?: ChangeOptions): Promise<Prepared> {
    return this.#local.prepare(desired, reason, options)
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

  attempt(desired: DesiredState | MakeDesired, reason: string, options?: ChangeOptions): Promise<Attempt> {
    return this.#node.exclusive(async () => {
      if (desired === reload) return this.#reload(reason, options)
      for (let tries = 1; ; tries++) {
        const attempt = await this.#change(desired, reason, options)
        if (!(attempt.error instanceof FleetChangedError) || tries === MAX_TRIES) return attempt
      }
    })
  }

  report(attempt: Attempt): void {
    this.#local.report(attempt)
  }

  download(url: string, signal: AbortSignal) {
    return this.#local.download(url, signal)
  }

  readUpload(bytes: Uint8Array, bundle: Uint8Array | undefined, signal: AbortSignal) {
    return this.#local.readUpload(bytes, bundle, signal)
  }

  resolveTag(reference: string, signal: AbortSignal) {
    return this.#local.resolveTag(reference, signal)
  }

  follow(server: Parameters<Deployments['follow']>[0]): void {
    this.#local.follow(server)
  }

  refuse(): void {
    this.#node.stop() // first: what a shutdown aborts is not a refusal of a revision
    this.#local.refuse()
  }

  async close(): Promise<void> {
    this.refuse()
    await this.#node.close()
    await this.#local.close()
  }

  applied(signal: AbortSignal): Promise<readonly string[]> {
    return this.#node.applied(signal)
  }

  async #reload(reason: string, options?: ChangeOptions): Promise<Attempt> {
    try {
      await this.#renew()
      this.#node.retry()
    } catch (error) {
      return this.#failed(error, reason)
    }
    return this.#local.attempt(reload, reason, options)
  }

  async #change(
    desired: DesiredState | MakeDesired,
    reason: string,
    options?: ChangeOptions,
  ): Promise<Attempt> {
    try {
      return await this.#node.change(options?.by, reason, () => this.#local.attempt(desired, reason, options))
    } catch (error) {
      return this.#failed(error, reason)
    }
  }

  #failed(error: unknown, reason: string): Promise<Attempt> {
    return this.#local.attempt(() => Promise.reject(error), reason)
  }
}
