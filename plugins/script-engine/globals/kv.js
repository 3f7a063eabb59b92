import { bytesOf } from './bytes.js'

/** The failure of an operation of the store: docs/write/state.md says more. */
export class StoreError extends Error {
  constructor(code) {
    super(`the store failed: ${code}`)
    this.name = 'StoreError'
    this.code = code
  }
}

const NONE = -1
const OTHER = -2

function checked(code) {
  if (code < 0) throw new StoreError(code)
}

/** @returns whether there was a value, or the value that was expected. */
function isDone(code) {
  if (code === NONE || code === OTHER) return false
  checked(code)
  return true
}

function getBytes(key) {
  const found = host.kvGet(bytesOf(key))
  if (typeof found !== 'number') return found
  if (found === NONE) return null
  checked(found)
  return new Uint8Array()
}

export const kv = {
  getBytes,
  get: (key) => {
    const bytes = getBytes(key)
    return bytes && host.decode(bytes, false)
  },
  set: (key, value, { ttlMs = 0 } = {}) => checked(host.kvSet(bytesOf(key), bytesOf(value), ttlMs, false)),
  delete: (key) => isDone(host.kvDelete(bytesOf(key))),
  list: (prefix = '', { cursor = '', limit = 1_000 } = {}) => {
    const found = host.kvList(bytesOf(prefix), bytesOf(cursor), limit)
    if (typeof found === 'number') checked(found)
    return JSON.parse(host.decode(found, false))
  },
  setIfAbsent: (key, value, { ttlMs = 0 } = {}) =>
    isDone(host.kvSet(bytesOf(key), bytesOf(value), ttlMs, true)),
  compareAndSwap: (key, expected, value, { ttlMs = 0 } = {}) =>
    isDone(host.kvSwap(bytesOf(key), bytesOf(expected), bytesOf(value), ttlMs)),
}
