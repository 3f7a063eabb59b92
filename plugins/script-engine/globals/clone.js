import { inspect } from './inspect.js'

export function structuredClone(value) {
  return copyOf(value, new Map())
}

function copyOf(value, copies) {
  if (typeof value === 'function' || typeof value === 'symbol')
    throw new DOMException(`${inspect(value)} could not be cloned`, 'DataCloneError')
  if (typeof value !== 'object' || value === null) return value
  const known = copies.get(value)
  if (known) return known
  const kept = (copy) => {
    copies.set(value, copy)
    return copy
  }
  if (value instanceof Date) return kept(new Date(value.getTime()))
  if (value instanceof RegExp) return kept(new RegExp(value.source, value.flags))
  if (value instanceof ArrayBuffer) return kept(value.slice(0))
  if (ArrayBuffer.isView(value)) {
    const buffer = copyOf(value.buffer, copies)
    return kept(new value.constructor(buffer, value.byteOffset, value.length ?? value.byteLength))
  }
  if (value instanceof Boolean || value instanceof Number || value instanceof String)
    return kept(Object(value.valueOf()))
  if (value instanceof Map) {
    const copy = kept(new Map())
    for (const [key, item] of value) copy.set(copyOf(key, copies), copyOf(item, copies))
    return copy
  }
  if (value instanceof Set) {
    const copy = kept(new Set())
    for (const item of value) copy.add(copyOf(item, copies))
    return copy
  }
  if (value instanceof Error) {
    const ofName =
      { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }[value.name] ?? Error
    const copy = kept(new ofName(value.message))
    if ('cause' in value) copy.cause = copyOf(value.cause, copies)
    return Object.assign(copy, { stack: value.stack })
  }
  if (
    value instanceof Promise ||
    value instanceof WeakMap ||
    value instanceof WeakSet ||
    value instanceof WeakRef
  )
    throw new DOMException(`${inspect(value)} could not be cloned`, 'DataCloneError')
  const copy = kept(Array.isArray(value) ? new Array(value.length) : {})
  for (const [key, item] of Object.entries(value)) copy[key] = copyOf(item, copies)
  return copy
}
