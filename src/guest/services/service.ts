import type { RouteMeter } from '../../observe/metrics.ts'
import type { Caller } from '../../observe/observe.ts'
import type { MaybePromise } from '../../platform/maybe-promise.ts'
import { hostImports } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import { findHostFunction, type HostFunctions } from '../host-functions.ts'
import type { GuestHttp, RouteHttp } from '../outbound/guest-http.ts'
import type { SharedStore } from '../store/shared-store.ts'
import type { StoreSync } from '../store/store.ts'
import type { SharedVars, Vars } from '../vars.ts'

/*
 * A service is what the host offers to guests beyond Extism's own functions. It lives on the main thread. Guests on the event loop
 * use it there; those of threads and processes ask for its operations over a link, and wait.
 */

/** What a service adds to the instances of a route. */
export interface InstanceServices {
  /** Host functions that guests may import. */
  readonly functions?: HostFunctions | undefined
  /** The outbound HTTP service. Default: all requests are refused. (`kernel`) */
  readonly http?: GuestHttp
  /** Variables shared by several instances. Default: each instance has its own. (`kernel`) */
  readonly vars?: Vars
  /** Called at the begin and the end of each call of an instance. */
  readonly calls?: CallHooks
}

/** What a service does when a call of an instance begins and when it has ended without a failure. */
export interface CallHooks {
  begin(caller: Caller): void
  end(caller: Caller): MaybePromise<unknown>
}

/** The options of a route that services depend on. */
export interface ServiceOptions {
  readonly kv: { readonly access: 'none' | 'read' | 'readwrite'; readonly namespace: string }
  readonly vars: 'own' | 'shared'
  readonly varMax: number
  readonly outbound: object | undefined
  readonly contract: unknown
}

/** The guests that may use services. */
export interface ServiceUse {
  readonly options: ServiceOptions
  readonly plugin: Pick<Plugin, 'name' | 'digest'>
  /** The functions that they import from the host, except those that the user's host functions override. */
  readonly imports: readonly HostImport[]
  /** The operations of the store that are synchronous. */
  readonly storeSync: StoreSync
}

export interface HostImport {
  readonly module: string
  readonly name: string
}

/**
 * @param users - The user's host functions.
 * @param storeSync - See {@link ServiceUse}.
 */
export function serviceUse(
  options: ServiceOptions,
  plugin: Pick<Plugin, 'name' | 'digest' | 'imports' | 'linked'>,
  users?: HostFunctions,
  storeSync: StoreSync = 'all',
): ServiceUse {
  return { options, plugin, imports: importsFromHost(plugin, users), storeSync }
}

/** The functions that a plug-in imports from the host, except those that the user's host functions override. */
export function importsFromHost(
  plugin: Pick<Plugin, 'imports' | 'linked'>,
  users?: HostFunctions,
): readonly HostImport[] {
  const imports = hostImports(plugin)
  return users ? imports.filter(({ module, name }) => !findHostFunction(users, module, name)) : imports
}

/** What services share and use on the main thread. */
export interface ServiceResources {
  readonly store: SharedStore
  readonly vars: SharedVars
  /** undefined: no host is allowed. */
  readonly http: RouteHttp | undefined
  /** Counts the operations, if metrics are enabled. */
  readonly meter: RouteMeter | undefined
}

/** A guest's request to a service, as plain data. */
export interface ServiceRequest {
  readonly service: string
  readonly operation: string
  readonly args: readonly unknown[]
}

/** The call whose guest asks. */
export interface ServiceCall {
  /** The caller of the running call; undefined while the guest starts. */
  readonly caller: Caller | undefined
  /** Whether a deadline ends the call. */
  readonly hasDeadline: boolean
  /** Aborted when the thread ends, as it does at the call's deadline. */
  readonly signal: AbortSignal
}

/** Sends the requests of guests to the main thread. */
export interface ServiceLink {
  /** Blocks until the reply arrives. @throws Error with the message of the host if the operation failed. */
  ask(service: GuestService, operation: string, args: readonly unknown[]): unknown

  /** Asks like {@link ask}, but suspends the guest of a call meanwhile. Default: guests cannot be suspended. */
  askLater?(
    caller: Caller,
    service: GuestService,
    operation: string,
    args: readonly unknown[],
  ): Promise<unknown>
}

/** A kind of argument: a process can send anything, and what it sends is checked. */
export type ArgumentKind = 'text' | 'number' | 'bytes' | 'bytes?'

/** A service for guests, as engines see it: they loop over all of them. */
export interface GuestService {
  readonly name: string
  /** The functions that guests import, by namespace. */
  readonly imports: Readonly<Record<string, readonly string[]>>
  /** Whether the time until a reply counts toward the deadline of the call. */
  readonly isCounted: boolean
  /** Whether bytes change their owner with their whole buffer: those of arguments, and the `answer` of a reply. */
  readonly movesBytes: boolean
  /** Whether it has the operation, with these arguments. */
  accepts(operation: string, args: readonly unknown[]): boolean
  /** Whether an operation mostly waits for bytes to come or go. */
  isPaced(operation: string): boolean
  /** Whether the time limit of the call begins anew with this reply. */
  startsAnew(operation: string, reply: unknown): boolean
  /** Whether the options of a route allow it. */
  isOffered(options: ServiceOptions): boolean
  /** What guests on the event loop would have to wait for; undefined if nothing. */
  waitsFor(use: ServiceUse): string | undefined
  /** What Extism's SDK cannot do of it, if a route's guests use it. */
  needsKernel(use: ServiceUse): string | undefined
  /** Opens it for a route that it is offered to. @returns undefined if its guests do not use it. */
  open(use: ServiceUse, resources: ServiceResources): Promise<OpenService | undefined>
  /** What instances get that reach it over a link. */
  connect(link: ServiceLink): InstanceServices
}

/** A service that is open for a route. */
export interface OpenService {
  readonly service: GuestService
  /** What instances on the event loop get. undefined: they reach it over a link, too. */
  readonly direct: InstanceServices | undefined
  /** Runs an operation. @returns the reply or a promise of it; undefined if the service does not accept it. */
  run(operation: string, args: readonly unknown[], call: ServiceCall): unknown
  /** Opens the service for a guest that is only started, to try it. @returns undefined if such a guest has none. */
  forTrial(): Promise<OpenService | undefined>
  close(): void
}

/** The names of a service's functions that guests import. */
export function importsOf(
  service: Pick<GuestService, 'imports'>,
  { imports }: Pick<ServiceUse, 'imports'>,
): readonly string[] {
  return imports.filter(({ module, name }) => providesImport(service, module, name)).map(({ name }) => name)
}

/** Whether a service has a host function of this name. */
export function providesImport(
  { imports }: Pick<GuestService, 'imports'>,
  namespace: string,
  name: string,
): boolean {
  return Object.hasOwn(imports, namespace) && imports[namespace]?.includes(name) === true
}
