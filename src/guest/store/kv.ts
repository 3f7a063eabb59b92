import {
  KvArgumentInvalidError,
  KvReadOnlyError,
  KvValueTooLargeError,
  StoreFullError,
  StoreUnavailableError,
} from '../../errors/errors.ts'
import { hostImports } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { CallContext } from '../call-context.ts'
import { findHostFunction, type HostFunction, type HostFunctions, HostTrouble } from '../host-functions.ts'
import { KEY_MAX, type KeyPage, keySpace, type MaybePromise, type Store, type StoreSync } from './store.ts'

/** The access of a plug-in to a store. */
export interface KvPermission {
  /** The namespace of its keys. */
  readonly namespace: string
  readonly access: 'read' | 'readwrite'
}

/** The operations of a guest on its store, with keys as raw bytes. Arguments and results can be cloned between threads. */
export interface KvOperations {
  get(key: Uint8Array): Uint8Array | undefined
  /** @param ttlMs - 0: no expiry. */
  set(key: Uint8Array, value: Uint8Array, ttlMs: number): undefined
  /** @returns whether there was a value. */
  delete(key: Uint8Array): boolean
  list(prefix: Uint8Array, cursor: Uint8Array | undefined, limit: number): KeyPage
  /** @returns whether the value was the expected one. */
  compareAndSwap(key: Uint8Array, expected: Uint8Array | undefined, value: Uint8Array, ttlMs: number): boolean
}

export type KvOperation = keyof KvOperations

/** A result or a failure, as plain data: errors lose their class between threads. */
export type KvReply<Answer> = { readonly answer: Answer } | KvFailure

export interface KvFailure {
  readonly problem: KvProblem
  /** For the log: code and message of the error. */
  readonly message: string
}

/** The kinds of failures that a guest can distinguish. */
export type KvProblem = 'forbidden' | 'invalid' | 'too-large' | 'full' | 'unavailable'

/** How host functions reach a store: on the main thread {@link serveKv}, in a worker the bridge to it. */
export interface KvClient {
  /** The operations that are synchronous. Behind a blocking bridge, all are. */
  readonly sync: StoreSync

  call<Name extends KvOperation>(
    operation: Name,
    ...args: Parameters<KvOperations[Name]>
  ): MaybePromise<KvReply<ReturnType<KvOperations[Name]>>>
}

/**
 * Restricts a store to the permission of one plug-in. Failures caused by the guest or the store are part of the reply;
 * they are not thrown.
 *
 * @throws {@link KvArgumentInvalidError} if the namespace is empty or too long.
 */
export function serveKv(store: Store, permission: KvPermission): KvClient {
  keySpace(permission.namespace)
  const operations = operationsOf(store, permission)
  const readsOnly = permission.access === 'read' // writes are rejected synchronously
  return {
    sync: readsOnly && store.sync === 'reads' ? 'all' : store.sync,
    call(operation, ...args) {
      const run = operations[operation] as (...args: unknown[]) => MaybePromise<never>
      try {
        const answer = run(...args)
        return answer instanceof Promise ? answer.then(toReply, toKvFailure) : toReply(answer)
      } catch (error) {
        return toKvFailure(error)
      }
    },
  }
}

type KvHandlers = {
  readonly [Name in KvOperation]: (
    ...args: Parameters<KvOperations[Name]>
  ) => MaybePromise<ReturnType<KvOperations[Name]> | unknown>
}

function operationsOf(store: Store, { namespace, access }: KvPermission): KvHandlers {
  const checkWrite = () => {
    if (access !== 'readwrite') throw new KvReadOnlyError(namespace)
  }
  return {
    get: (key) => store.get(namespace, decodeKey(key)),
    list(prefix, cursor, limit) {
      return store.list(namespace, decodeKey(prefix), limit, cursor && decodeKey(cursor))
    },
    set(key, value, ttlMs) {
      checkWrite()
      return store.set(namespace, decodeKey(key), value, ttl(ttlMs))
    },
    delete(key) {
      checkWrite()
      return store.delete(namespace, decodeKey(key))
    },
    compareAndSwap(key, expected, value, ttlMs) {
      checkWrite()
      return store.compareAndSwap(namespace, decodeKey(key), expected, value, ttl(ttlMs))
    },
  }
}

function ttl(ttlMs: number): { ttlMs?: number } {
  return ttlMs === 0 ? {} : { ttlMs }
}

/**
 * Strict decoding, so that different bytes are different keys: no replacement characters, and a byte order mark is
 * kept.
 */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decodeKey(bytes: Uint8Array): string {
  if (bytes.length > KEY_MAX) {
    throw new KvArgumentInvalidError(
      `the key, prefix or cursor has ${bytes.length} bytes, more than ${KEY_MAX}`,
    )
  }
  try {
    return utf8.decode(bytes)
  } catch (error) {
    throw new KvArgumentInvalidError('the key, prefix or cursor is not UTF-8', { cause: error })
  }
}

function toReply<Answer>(answer: Answer): KvReply<Answer> {
  return { answer }
}

const PROBLEMS: readonly [new (...args: never[]) => Error, KvProblem][] = [
  [KvReadOnlyError, 'forbidden'],
  [KvArgumentInvalidError, 'invalid'],
  [KvValueTooLargeError, 'too-large'],
  [StoreFullError, 'full'],
  [StoreUnavailableError, 'unavailable'],
]

/** @throws any other error: a bug. */
function toKvFailure(error: unknown): KvFailure {
  const known = PROBLEMS.find(([type]) => error instanceof type)
  if (!known) throw error
  const { code, message } = error as Error & { code: string }
  return { problem: known[1], message: `${code}: ${message}` }
}

/** A function of the store that a plug-in imports. */
interface KvImport {
  readonly namespace: string
  readonly name: string
}

/** The store functions that a plug-in imports, except those that the user's host functions override. */
export function kvImports(plugin: Pick<Plugin, 'imports' | 'linked'>, users: HostFunctions = {}): KvImport[] {
  return hostImports(plugin)
    .map(({ module: namespace, name }) => ({ namespace, name }))
    .filter(({ namespace, name }) => isKvName(namespace, name) && !findHostFunction(users, namespace, name))
}

/** The namespace of Extism's example may also have functions of the user. */
function isKvName(namespace: string, name: string): boolean {
  return namespace === KV || (namespace === EXTISM_USER && (name === 'kv_read' || name === 'kv_write'))
}

/** The host functions of the user with those of the store that are imported: one object for all instances of a route. */
export function withKv(
  users: HostFunctions | undefined,
  imports: readonly KvImport[],
  client: KvClient,
): HostFunctions {
  const ours = kvFunctions(client)
  const all: Record<string, HostFunctions[string]> = { ...users }
  for (const { namespace, name } of imports) {
    const found = new Map(Object.entries(ours[namespace] ?? {})).get(name)
    if (found) all[namespace] = { ...all[namespace], [name]: found }
  }
  return all
}

/** Whether a guest has to wait for one of them. */
export function waitsForKv(functions: HostFunctions, imports: readonly KvImport[]): boolean {
  return imports.some(({ namespace, name }) => findHostFunction(functions, namespace, name)?.isAsync)
}

/** The namespace of the functions in Extism's own example. */
const EXTISM_USER = 'extism:host/user'

/** The namespace of all store functions. */
const KV = 'wasm-serve:kv'

/** Return values of failed functions of {@link KV}; see the README beside this file. */
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
export function kvFunctions(client: KvClient): HostFunctions {
  const { define } = new Definer(client)
  return {
    [EXTISM_USER]: {
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
    if (this.#answersAtOnce(operation)) {
      return (context, ...args: [bigint, bigint, bigint, bigint]) =>
        write(context, ask(context, args) as KvReply<ReturnType<KvOperations[Name]>>)
    }
    return async (context, ...args: [bigint, bigint, bigint, bigint]) =>
      write(context, await ask(context, args))
  }

  #answersAtOnce(operation: KvOperation): boolean {
    const { sync } = this.#client
    return sync === 'all' || (sync === 'reads' && (operation === 'get' || operation === 'list'))
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

/** For functions that cannot return a code. @throws Error the call ends: with 503 unless the guest caused the error. */
function orThrow<Answer>(reply: KvReply<Answer>): Answer {
  if (!('problem' in reply)) return reply.answer
  const { problem, message } = reply
  throw problem === 'unavailable' || problem === 'full' ? new HostTrouble(message) : new Error(message)
}

function orCode<Answer>(reply: KvReply<Answer>, done: (answer: Answer) => bigint): bigint {
  return 'problem' in reply ? KV_CODES[reply.problem] : done(reply.answer)
}

function orConflict(isDone: boolean): bigint {
  return isDone ? 0n : KV_CODES.conflict
}
