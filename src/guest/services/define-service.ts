import type { Caller } from '../../observe/observe.ts'
import type { MaybePromise } from '../../platform/maybe-promise.ts'
import type { HostFunction } from '../host-functions.ts'
import type {
  ArgumentKind,
  GuestService,
  InstanceServices,
  OpenService,
  ServiceCall,
  ServiceLink,
  ServiceResources,
  ServiceUse,
} from './service.ts'

/* How a service is written down. Its types are checked here, so that engines need not know them. */

/**
 * An operation as host functions ask for it.
 *
 * @param caller - Its guest is suspended until the reply comes, if the link can suspend guests. undefined: the guest's thread
 * waits, as it does in any case while a guest starts.
 */
export type Operation<Args extends readonly unknown[], Reply> = (
  caller: Caller | undefined,
  ...args: Args
) => Reply

type OperationsOf<Ops> = { readonly [Name in keyof Ops]: Operation<never[], unknown> }

type ArgsOf<Op> = Op extends (caller: Caller | undefined, ...args: infer Args) => unknown ? Args : never

type KindsOf<Args extends readonly unknown[]> = { readonly [Index in keyof Args]-?: KindOf<Args[Index]> }

type KindOf<Value> = [Value] extends [string]
  ? 'text'
  : [Value] extends [number]
    ? 'number'
    : [Value] extends [Uint8Array]
      ? 'bytes'
      : 'bytes?'

/** Functions by namespace and name: those that a service lists as its imports. */
export type FunctionsOf<Imports extends GuestService['imports']> = {
  readonly [Namespace in keyof Imports]: Readonly<Record<Imports[Namespace][number], HostFunction>>
}

/** {@link ServiceLink} for the operations of one service. */
interface TypedLink<Ops> {
  /** Whether guests are suspended until a reply comes. */
  readonly suspends: boolean
  readonly ask: Ops
}

/** {@link OpenService} with its types. */
export interface OpenDefinition<Ops, Client> {
  /** The client for guests on the event loop. Default: they reach the service over a link. */
  readonly direct?: Client
  run(operation: keyof Ops, args: ArgsOf<Ops[keyof Ops]>, call: ServiceCall): unknown
  /** Default: a guest that is only tried has none. */
  forTrial?(): MaybePromise<OpenDefinition<Ops, Client>>
  close?(): void
}

/** {@link GuestService} with its types. `Client` is how its host functions reach it. */
interface ServiceDefinition<Ops extends OperationsOf<Ops>, Client>
  extends Pick<GuestService, 'name' | 'isOffered'>,
    Partial<
      Pick<GuestService, 'imports' | 'isCounted' | 'movesBytes' | 'startsAnew' | 'waitsFor' | 'needsKernel'>
    > {
  /** The operations, with the kinds of their arguments. */
  readonly operations: { readonly [Name in keyof Ops]: KindsOf<ArgsOf<Ops[Name]>> }
  readonly paced?: readonly (keyof Ops)[]
  open(use: ServiceUse, resources: ServiceResources): MaybePromise<OpenDefinition<Ops, Client> | undefined>
  clientOf(link: TypedLink<Ops>): Client
  /** What instances get, whichever client they have. */
  serve(client: Client): InstanceServices
}

/** Makes a service of its definition. */
export function defineService<Ops extends OperationsOf<Ops>, Client>(
  definition: ServiceDefinition<Ops, Client>,
): GuestService {
  const kindsOf = new Map<string, readonly ArgumentKind[]>(Object.entries(definition.operations))
  const paced = new Set<unknown>(definition.paced)
  const accepts = (operation: string, args: readonly unknown[]) => {
    const kinds = kindsOf.get(operation)
    return (
      kinds !== undefined && args.length <= kinds.length && kinds.every((kind, at) => isOf(kind, args[at]))
    )
  }
  const open = (opened: OpenDefinition<Ops, Client>): OpenService => ({
    service,
    direct: opened.direct && definition.serve(opened.direct),
    run(operation, args, call) {
      return accepts(operation, args)
        ? opened.run(operation as keyof Ops, args as ArgsOf<Ops[keyof Ops]>, call)
        : undefined
    },
    async forTrial() {
      const trial = await opened.forTrial?.()
      return trial && open(trial)
    },
    close: () => opened.close?.(),
  })
  const service: GuestService = {
    name: definition.name,
    imports: definition.imports ?? {},
    isCounted: definition.isCounted ?? true,
    movesBytes: definition.movesBytes ?? false,
    accepts,
    isPaced: (operation) => paced.has(operation),
    startsAnew: definition.startsAnew ?? (() => false),
    isOffered: definition.isOffered,
    waitsFor: definition.waitsFor ?? (() => undefined),
    needsKernel: definition.needsKernel ?? (() => undefined),
    async open(use, resources) {
      const opened = await definition.open(use, resources)
      return opened && open(opened)
    },
    connect(link) {
      const asking = [...kindsOf.keys()].map((operation) => {
        const ask: Operation<unknown[], unknown> = (caller, ...args) =>
          caller && link.askLater
            ? link.askLater(caller, service, operation, args)
            : link.ask(service, operation, args)
        return [operation, ask]
      })
      const suspends = link.askLater !== undefined
      return definition.serve(definition.clientOf({ suspends, ask: Object.fromEntries(asking) }))
    },
  }
  return service
}

function isOf(kind: ArgumentKind, value: unknown): boolean {
  switch (kind) {
    case 'text':
      return typeof value === 'string'
    case 'number':
      return typeof value === 'number'
    case 'bytes':
      return value instanceof Uint8Array
    case 'bytes?':
      return value === undefined || value instanceof Uint8Array
  }
}
