import { USER_NAMESPACE } from '../../module/names.ts'
import type { MaybePromise } from '../../platform/maybe-promise.ts'
import { hostImports } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { CallContext } from '../call-context.ts'
import { findHostFunction, type HostFunction, ServiceUnavailable } from '../host-functions.ts'
import {
  answersAtOnce,
  type KvClient,
  type KvOperation,
  type KvOperations,
  type KvPermission,
  type KvProblem,
  type KvReply,
  meterKv,
  serveKv,
  syncWith,
} from '../store/kv.ts'
import type { StoreSync } from '../store/store.ts'
import { defineService, type FunctionsOf, type OpenDefinition, type Operation } from './define-service.ts'
import { type GuestService, importsOf } from './service.ts'

type Operations = {
  readonly [Name in KvOperation]: Operation<
    Parameters<KvOperations[Name]>,
    MaybePromise<KvReply<ReturnType<KvOperations[Name]>>>
  >
}

/** The namespace of the functions in Extism's own example. It may also have functions of the user. */

/** The namespace of all store functions. */
const KV = 'wasm-serve:kv'

const IMPORTS = {
  [USER_NAMESPACE]: ['kv_read', 'kv_write'],
  [KV]: ['get', 'set', 'delete', 'list', 'compare_and_swap', 'set_if_absent'],
} as const

/** The key-value store. */
export const kv: GuestService = defineService<Operations, KvClient>({
  name: 'kv',
  imports: IMPORTS,
  operations: {
    get: ['bytes'],
    set: ['bytes', 'bytes', 'number'],
    delete: ['bytes'],
    list: ['bytes', 'bytes?', 'number'],
    compareAndSwap: ['bytes', 'bytes?', 'bytes', 'number'],
  },
  isOffered: ({ kv }) => kv.access !== 'none',
  waitsFor(use) {
    const { imports, options, storeSync } = use
    if (options.kv.access === 'none' || importsOf(kv, use).length === 0) return undefined
    const functions = kvFunctions(unopened(syncWith({ access: options.kv.access }, storeSync)))
    const waits = imports.some(({ module, name }) => findHostFunction(functions, module, name)?.isAsync)
    return waits ? 'key-value store' : undefined
  },
  async open(use, { store, meter }) {
    const { access, namespace } = use.options.kv
    if (access === 'none' || importsOf(kv, use).length === 0) return undefined
    const permission: KvPermission = { access, namespace }
    const served = serveKv(await store.open(), permission)
    return {
      ...openClient(meter ? meterKv(served, meter) : served),
      forTrial: async () => openClient(serveKv(await store.openEmpty(), { access, namespace: 'trial' })),
    }
  },
  // Arguments read from the guest are copies with their own buffers, so a message carries no other bytes.
  clientOf: ({ ask }) => ({ sync: 'all', call: (operation, ...args) => ask[operation](undefined, ...args) }),
  serve: (client) => ({ functions: kvFunctions(client) }),
})

/** Whether guests of a plug-in import functions of the store. */
export function importsKv(plugin: Pick<Plugin, 'imports' | 'linked'>): boolean {
  return importsOf(kv, { imports: hostImports(plugin) }).length > 0
}

/** Operations complete even if the thread that asks ends. */
function openClient(client: KvClient): OpenDefinition<Operations, KvClient> {
  return { direct: client, run: (operation, args) => client.call(operation, ...args) }
}

/** A store of which only the synchronous operations are known. */
function unopened(sync: StoreSync): KvClient {
  return { sync, call: () => ({ problem: 'unavailable', message: 'it is not open' }) }
}

/** Return values of failed functions of {@link KV}; see `../store/README.md`. */
export const KV_CODES = {
  notFound: -1n,
  conflict: -2n,
  forbidden: -3n,
  invalid: -4n,
  'too-large': -5n,
  full: -6n,
  unavailable: -7n,
} as const satisfies Record<KvProblem | 'notFound' | 'conflict', bigint>

/**
 * The functions by which a guest reaches its store, in any runtime. Those that must wait are `async`; the others are
 * synchronous.
 */
export function kvFunctions(client: KvClient): FunctionsOf<typeof IMPORTS> {
  const { define } = new Definer(client)
  return {
    [USER_NAMESPACE]: {
      kv_read: define('get', readKeyArgument, (context, reply) =>
        // Four zero bytes for no value: the plug-in of Extism's example reads a number.
        store(context, orThrow(reply) ?? new Uint8Array(4)),
      ),
      kv_write: define('set', readKeyAndValue, (_context, reply) => orThrow(reply)),
    },
    [KV]: {
      get: define('get', readKeyArgument, (context, reply) =>
        orCode(reply, (value) => (value ? store(context, value) : KV_CODES.notFound)),
      ),
      set: define('set', readKeyAndValue, (_context, reply) => orCode(reply, () => 0n)),
      delete: define('delete', readKeyArgument, (_context, reply) =>
        orCode(reply, (wasThere) => (wasThere ? 0n : KV_CODES.notFound)),
      ),
      list: define(
        'list',
        (context, prefix, cursor, limit) => {
          const after = readBlock(context, cursor)
          return [readBlock(context, prefix), after.length > 0 ? after : undefined, Number(limit)]
        },
        (context, reply) => orCode(reply, (page) => context.store(JSON.stringify(page))),
      ),
      compare_and_swap: define(
        'compareAndSwap',
        (context, key, expected, value, ttlMs) => [
          readBlock(context, key),
          readBlock(context, expected),
          readBlock(context, value),
          Number(ttlMs),
        ],
        (_context, reply) => orCode(reply, orConflict),
      ),
      set_if_absent: define(
        'compareAndSwap',
        (context, key, value, ttlMs) => [
          readBlock(context, key),
          undefined,
          readBlock(context, value),
          Number(ttlMs),
        ],
        (_context, reply) => orCode(reply, orConflict),
      ),
    },
  }
}

type ReadArguments<Name extends KvOperation> = (
  context: CallContext,
  ...args: [bigint, bigint, bigint, bigint]
) => Parameters<KvOperations[Name]>

type WriteReply<Name extends KvOperation> = (
  context: CallContext,
  reply: KvReply<ReturnType<KvOperations[Name]>>,
) => bigint | undefined

class Definer {
  readonly #client: KvClient

  constructor(client: KvClient) {
    this.#client = client
  }

  /** A host function that reads its arguments, calls the store and writes the reply. */
  readonly define = <Name extends KvOperation>(
    operation: Name,
    readArguments: ReadArguments<Name>,
    write: WriteReply<Name>,
  ): HostFunction => {
    const ask = (
      context: CallContext,
      args: Parameters<ReadArguments<Name>> extends [unknown, ...infer Rest] ? Rest : never,
    ) => this.#client.call(operation, ...readArguments(context, ...args))
    if (answersAtOnce(this.#client.sync, operation)) {
      return (context, ...args: [bigint, bigint, bigint, bigint]) =>
        write(context, ask(context, args) as KvReply<ReturnType<KvOperations[Name]>>)
    }
    return async (context, ...args: [bigint, bigint, bigint, bigint]) =>
      write(context, await ask(context, args))
  }
}

function readKeyArgument(context: CallContext, key: bigint): [Uint8Array] {
  return [readBlock(context, key)]
}

/** Extism's `kv_write` has no third argument. */
function readKeyAndValue(
  context: CallContext,
  key: bigint,
  value: bigint,
  ttlMs: bigint = 0n,
): [Uint8Array, Uint8Array, number] {
  return [readBlock(context, key), readBlock(context, value), Number(ttlMs)]
}

/**
 * A copy of a block. 0 means no bytes.
 *
 * @throws Error if no block begins there: the call ends, as with Extism's own functions.
 */
function readBlock(context: CallContext, at: bigint): Uint8Array {
  if (at === 0n) return new Uint8Array()
  const block = context.read(at)
  if (!block) throw new Error(`no block begins at offset ${BigInt.asUintN(64, at)}`)
  // Not `bytes()`: those would be written back.
  return new Uint8Array(block.buffer, block.byteOffset, block.byteLength).slice()
}

/** Extism's SDK would create a block even for no bytes; a guest must get 0 in every runtime. */
function store(context: CallContext, value: Uint8Array): bigint {
  return value.length === 0 ? 0n : context.store(value)
}

/** Returns the answer for functions that cannot return a code. @throws Error the call ends: with 503 unless the guest caused the error. */
function orThrow<Answer>(reply: KvReply<Answer>): Answer {
  if (!('problem' in reply)) return reply.answer
  const { problem, message } = reply
  throw problem === 'unavailable' || problem === 'full' ? new ServiceUnavailable(message) : new Error(message)
}

function orCode<Answer>(reply: KvReply<Answer>, done: (answer: Answer) => bigint): bigint {
  return 'problem' in reply ? KV_CODES[reply.problem] : done(reply.answer)
}

function orConflict(isDone: boolean): bigint {
  return isDone ? 0n : KV_CODES.conflict
}
