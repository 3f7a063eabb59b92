import {
  KvArgumentInvalidError,
  KvReadOnlyError,
  KvValueTooLargeError,
  StoreFullError,
  StoreUnavailableError,
} from '../../errors/errors.ts'
import type { RouteMeter } from '../../observe/metrics.ts'
import type { MaybePromise } from '../../platform/maybe-promise.ts'
import { KEY_MAX, type KeyPage, keySpace, type Store, type StoreSync } from './store.ts'

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

interface KvFailure {
  readonly problem: KvProblem
  /** Code and message of the error, for the log. */
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
  return {
    sync: syncWith(permission, store.sync),
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

/** The synchronous operations of a plug-in. Writes that are not allowed are rejected synchronously. */
export function syncWith({ access }: Pick<KvPermission, 'access'>, sync: StoreSync): StoreSync {
  return access === 'read' && sync === 'reads' ? 'all' : sync
}

/** Whether an operation never returns a promise. */
export function answersAtOnce(sync: StoreSync, operation: KvOperation): boolean {
  return sync === 'all' || (sync === 'reads' && (operation === 'get' || operation === 'list'))
}

/** Counts the results of the guests' operations on the store. */
export function meterKv(client: KvClient, meter: RouteMeter): KvClient {
  return {
    sync: client.sync,
    call(operation, ...args) {
      const reply = client.call(operation, ...args)
      const count = (reply: KvReply<unknown>) => {
        meter.countKv(`${operation} ${'problem' in reply ? reply.problem : 'ok'}`)
      }
      return withCount(reply, count)
    },
  }
}

function withCount<Reply extends KvReply<unknown>>(
  reply: MaybePromise<Reply>,
  count: (reply: Reply) => void,
): MaybePromise<Reply> {
  if (reply instanceof Promise) {
    return reply.then((settled) => {
      count(settled)
      return settled
    })
  }
  count(reply)
  return reply
}
