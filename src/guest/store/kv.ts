import {
  KvArgumentInvalidError,
  KvReadOnlyError,
  KvValueTooLargeError,
  StoreFullError,
  StoreUnavailableError,
} from '../../errors/errors.ts'
import { KEY_MAX, keySpace } from './keys.ts'
import type { KeyPage, MaybePromise, Store, StoreSync } from './store.ts'

/** What a plug-in may do with a store. */
export interface KvPermission {
  /** Its keys are those of this namespace. */
  readonly namespace: string
  readonly access: 'read' | 'readwrite'
}

/** What a guest can ask of its store; keys as it wrote them. Arguments and answers can be cloned between threads. */
export interface KvOperations {
  get(key: Uint8Array): Uint8Array | undefined
  /** @param ttlMs - 0: it stays. */
  set(key: Uint8Array, value: Uint8Array, ttlMs: number): undefined
  /** @returns whether there was a value. */
  delete(key: Uint8Array): boolean
  list(prefix: Uint8Array, cursor: Uint8Array | undefined, limit: number): KeyPage
  /** @returns whether it was as expected. */
  compareAndSwap(key: Uint8Array, expected: Uint8Array | undefined, value: Uint8Array, ttlMs: number): boolean
}

export type KvOperation = keyof KvOperations

/** An answer, or what was wrong: plain data, because errors lose their class between threads. */
export type KvReply<Answer> = { readonly answer: Answer } | KvFailure

export interface KvFailure {
  readonly problem: KvProblem
  /** For the log: code and message of the error. */
  readonly message: string
}

/** What a guest is told. */
export type KvProblem = 'forbidden' | 'invalid' | 'too-large' | 'full' | 'unavailable'

/** How host functions reach a store: on the main thread {@link serveKv}, in a worker the bridge to it. */
export interface KvClient {
  /** Which operations answer at once. Behind a bridge that blocks, all do. */
  readonly sync: StoreSync

  call<Name extends KvOperation>(
    operation: Name,
    ...args: Parameters<KvOperations[Name]>
  ): MaybePromise<KvReply<ReturnType<KvOperations[Name]>>>
}

/**
 * A store as one plug-in may use it. What a guest, or the store, may cause is part of the reply, and never thrown.
 *
 * @throws {@link KvArgumentInvalidError} if the namespace is empty or too long.
 */
export function serveKv(store: Store, permission: KvPermission): KvClient {
  keySpace(permission.namespace)
  const operations = operationsOf(store, permission)
  const readsOnly = permission.access === 'read' // who writes is refused at once
  return {
    sync: readsOnly && store.sync === 'reads' ? 'all' : store.sync,
    call(operation, ...args) {
      const run = operations[operation] as (...args: unknown[]) => MaybePromise<never>
      try {
        const answer = run(...args)
        return answer instanceof Promise ? answer.then(toReply, toFailure) : toReply(answer)
      } catch (error) {
        return toFailure(error)
      }
    },
  }
}

type Served = {
  readonly [Name in KvOperation]: (
    ...args: Parameters<KvOperations[Name]>
  ) => MaybePromise<ReturnType<KvOperations[Name]> | unknown>
}

function operationsOf(store: Store, { namespace, access }: KvPermission): Served {
  const checkWrite = () => {
    if (access !== 'readwrite') throw new KvReadOnlyError(namespace)
  }
  return {
    get: (key) => store.get(namespace, decode(key)),
    list(prefix, cursor, limit) {
      return store.list(namespace, decode(prefix), limit, cursor && decode(cursor))
    },
    set(key, value, ttlMs) {
      checkWrite()
      return store.set(namespace, decode(key), value, ttl(ttlMs))
    },
    delete(key) {
      checkWrite()
      return store.delete(namespace, decode(key))
    },
    compareAndSwap(key, expected, value, ttlMs) {
      checkWrite()
      return store.compareAndSwap(namespace, decode(key), expected, value, ttl(ttlMs))
    },
  }
}

function ttl(ttlMs: number): { ttlMs?: number } {
  return ttlMs === 0 ? {} : { ttlMs }
}

/** Exact, so that no two keys are the same: not lossy, and a byte order mark is part of it. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decode(bytes: Uint8Array): string {
  if (bytes.length > KEY_MAX) {
    throw new KvArgumentInvalidError(
      `the key, prefix or cursor has ${bytes.length} bytes, more than ${KEY_MAX}`,
    )
  }
  try {
    return utf8.decode(bytes)
  } catch (error) {
    throw new KvArgumentInvalidError('the key, prefix or cursor is no UTF-8', { cause: error })
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

/** @throws what is none of these: a bug. */
function toFailure(error: unknown): KvFailure {
  const known = PROBLEMS.find(([type]) => error instanceof type)
  if (!known) throw error
  const { code, message } = error as Error & { code: string }
  return { problem: known[1], message: `${code}: ${message}` }
}
