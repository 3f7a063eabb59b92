import { hostImports } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { CallContext } from '../call-context.ts'
import { findHostFunction, type HostFunction, type HostFunctions, HostTrouble } from '../host-functions.ts'
import type { KvClient, KvOperation, KvOperations, KvProblem, KvReply } from './kv.ts'

/** A function of the store that a plug-in imports. */
export interface KvImport {
  readonly namespace: string
  readonly name: string
}

/** Those that a plug-in imports, and that are not among the host functions of the user: his win. */
export function kvImports(plugin: Pick<Plugin, 'imports' | 'linked'>, users: HostFunctions = {}): KvImport[] {
  return hostImports(plugin)
    .map(({ module: namespace, name }) => ({ namespace, name }))
    .filter(({ namespace, name }) => isKvName(namespace, name) && !findHostFunction(users, namespace, name))
}

/** In the namespace of Extism's example there may be others of the user. */
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

/** Where the functions of Extism's own example are. */
const EXTISM_USER = 'extism:host/user'

/** Where all that a store can do is. */
const KV = 'wasm-serve:kv'

/** What the functions of {@link KV} return when they did not do it; see the README beside this file. */
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
 * The functions by which a guest reaches its store, for whatever runtime. One that has to wait is `async`; the others
 * answer at once.
 */
export function kvFunctions(client: KvClient): HostFunctions {
  const { define } = new Definer(client)
  return {
    [EXTISM_USER]: {
      kv_read: define('get', readKey, (context, reply) =>
        // Four zero bytes for no value: what the plug-in of Extism's example counts on, which reads a number.
        store(context, orThrow(reply) ?? new Uint8Array(4)),
      ),
      kv_write: define('set', readKeyAndValue, (_context, reply) => orThrow(reply)),
    },
    [KV]: {
      get: define('get', readKey, (context, reply) =>
        orCode(reply, (value) => (value ? store(context, value) : KV_CODES.notFound)),
      ),
      set: define('set', readKeyAndValue, (_context, reply) => orCode(reply, () => 0n)),
      delete: define('delete', readKey, (_context, reply) =>
        orCode(reply, (wasThere) => (wasThere ? 0n : KV_CODES.notFound)),
      ),
      list: define(
        'list',
        (context, prefix, cursor, limit) => {
          const after = read(context, cursor)
          return [read(context, prefix), after.length > 0 ? after : undefined, Number(limit)]
        },
        (context, reply) => orCode(reply, (page) => context.store(JSON.stringify(page))),
      ),
      compare_and_swap: define(
        'compareAndSwap',
        (context, key, expected, value, ttlMs) => [
          read(context, key),
          read(context, expected),
          read(context, value),
          Number(ttlMs),
        ],
        (_context, reply) => orCode(reply, orConflict),
      ),
      set_if_absent: define(
        'compareAndSwap',
        (context, key, value, ttlMs) => [read(context, key), undefined, read(context, value), Number(ttlMs)],
        (_context, reply) => orCode(reply, orConflict),
      ),
    },
  }
}

type Read<Name extends KvOperation> = (
  context: CallContext,
  ...args: [bigint, bigint, bigint, bigint]
) => Parameters<KvOperations[Name]>

type Write<Name extends KvOperation> = (
  context: CallContext,
  reply: KvReply<ReturnType<KvOperations[Name]>>,
) => bigint | undefined

class Definer {
  readonly #client: KvClient

  constructor(client: KvClient) {
    this.#client = client
  }

  /** A host function that reads its arguments, asks the store and writes what it answers. */
  readonly define = <Name extends KvOperation>(
    operation: Name,
    readArguments: Read<Name>,
    write: Write<Name>,
  ): HostFunction => {
    const ask = (
      context: CallContext,
      args: Parameters<Read<Name>> extends [unknown, ...infer Rest] ? Rest : never,
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

function readKey(context: CallContext, key: bigint): [Uint8Array] {
  return [read(context, key)]
}

/** Extism's `kv_write` has no third argument. */
function readKeyAndValue(
  context: CallContext,
  key: bigint,
  value: bigint,
  ttlMs: bigint = 0n,
): [Uint8Array, Uint8Array, number] {
  return [read(context, key), read(context, value), Number(ttlMs)]
}

/**
 * A copy of a block. 0 is no bytes.
 *
 * @throws Error if no block begins there: the call ends, as for Extism's own functions.
 */
function read(context: CallContext, at: bigint): Uint8Array {
  if (at === 0n) return new Uint8Array()
  const block = context.read(at)
  if (!block) throw new Error(`no block begins at offset ${BigInt.asUintN(64, at)}`)
  // Not `bytes()`: whoever asks for those gets them written back.
  return new Uint8Array(block.buffer, block.byteOffset, block.byteLength).slice()
}

/** Extism's SDK would make a block of no bytes, too; a guest is to find 0 whatever runs it. */
function store(context: CallContext, value: Uint8Array): bigint {
  return value.length === 0 ? 0n : context.store(value)
}

/** For functions without a code to return. @throws Error the call ends: with 503 if it is not the guest's mistake. */
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
