import type { HostRequest } from '../workers/protocol.ts'
import { unpack } from './packed.ts'

type Kind = 'text' | 'bytes' | 'bytes?' | 'number'

/** What may be asked for, and of which kinds its arguments are. */
const ARGUMENTS: Readonly<Record<string, readonly Kind[]>> = {
  http: ['bytes', 'bytes'],
  var_get: ['text'],
  var_set: ['text', 'bytes'],
  var_delete: ['text'],
  'kv get': ['bytes'],
  'kv set': ['bytes', 'bytes', 'number'],
  'kv delete': ['bytes'],
  'kv list': ['bytes', 'bytes?', 'number'],
  'kv compareAndSwap': ['bytes', 'bytes?', 'bytes', 'number'],
}

/**
 * Reads what a guest asks of the host. A guest that has got hold of its process can ask what it likes: what is none of
 * ours goes no further.
 *
 * @throws RangeError
 */
export function readHostRequest(packed: Uint8Array): HostRequest {
  const request = unpack(packed)
  if (typeof request !== 'object' || request === null || !('operation' in request) || !('args' in request))
    throw new RangeError('it is no request')
  const { operation, args } = request
  if (typeof operation !== 'string' || !Array.isArray(args)) throw new RangeError('it is no request')
  const isKv = operation === 'kv'
  const name = isKv ? `kv ${args[0]}` : operation
  const kinds = Object.hasOwn(ARGUMENTS, name) ? ARGUMENTS[name] : undefined
  const given: unknown[] = isKv ? args.slice(1) : args
  if (!kinds || given.length > kinds.length || !kinds.every((kind, index) => isOf(kind, given[index])))
    throw new RangeError(`there is no operation "${name}" with these arguments`)
  return { operation, args }
}

function isOf(kind: Kind, value: unknown): boolean {
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
