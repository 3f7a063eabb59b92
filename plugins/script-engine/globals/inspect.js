import { framesOf } from './stack.js'

/* Values and errors as text, for people. */

const MAX_DEPTH = 4
const MAX_ITEMS = 100

/** A value as text. Objects may have code that fails, or does not want to be seen. */
export function inspect(value, seen = []) {
  try {
    return shown(value, seen)
  } catch (error) {
    return `[cannot be shown: ${error instanceof Error ? error.name : 'it threw'}]`
  }
}

function shown(value, seen) {
  if (typeof value === 'string') return seen.length === 0 ? value : JSON.stringify(value)
  if (typeof value === 'bigint') return `${value}n`
  if (value === GETTER) return '[Getter]'
  if (typeof value === 'symbol') return value.toString()
  if (typeof value === 'function')
    return `[${isClass(value) ? 'class' : 'Function'}: ${value.name || '(anonymous)'}]`
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? '-0' : String(value)
  if (value instanceof Error) return describe(value)
  if (seen.includes(value)) return '[Circular]'
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
  if (value instanceof RegExp) return String(value)
  if (value instanceof Promise) return 'Promise {}'
  const name = value.constructor?.name ?? ''
  if (seen.length >= MAX_DEPTH) return `[${name || 'Object'}]`
  const below = [...seen, value]
  const show = (item) => inspect(item, below)
  if (value instanceof ArrayBuffer) return `ArrayBuffer { byteLength: ${value.byteLength} }`
  if (Array.isArray(value) || (ArrayBuffer.isView(value) && 'length' in value)) {
    const items = listed(
      Array.from({ length: Math.min(value.length, MAX_ITEMS + 1) }, (_, at) => value[at]),
      value.length,
      show,
    )
    return `${Array.isArray(value) ? '' : `${name}(${value.length}) `}[${items && ` ${items} `}]`
  }
  if (value instanceof Map) {
    const items = listed([...value], value.size, ([key, item]) => `${show(key)} => ${show(item)}`)
    return `Map(${value.size}) {${items && ` ${items} `}}`
  }
  if (value instanceof Set) {
    const items = listed([...value], value.size, show)
    return `Set(${value.size}) {${items && ` ${items} `}}`
  }
  const entries = entriesOf(value)
  const items = listed(
    entries,
    entries.length,
    ([key, item]) => `${/^[\w$]+$/.test(key) ? key : JSON.stringify(key)}: ${show(item)}`,
  )
  return `${name && name !== 'Object' ? `${name} ` : ''}{${items && ` ${items} `}}`
}

/** Without running getters. */
function entriesOf(value) {
  const all = Object.entries(Object.getOwnPropertyDescriptors(value)).filter(
    ([, { enumerable }]) => enumerable,
  )
  return all.map(([key, { get, value: item }]) => [key, get ? GETTER : item])
}

/** Stands for what a getter returns. */
const GETTER = Symbol('getter')

function listed(items, count, shown) {
  const texts = items.slice(0, MAX_ITEMS).map(shown)
  return [...texts, ...(count > MAX_ITEMS ? [`... ${count - MAX_ITEMS} more`] : [])].join(', ')
}

const FORMATS = {
  s: String,
  d: Number,
  i: (value) => Math.trunc(value),
  f: Number,
  j: JSON.stringify,
  o: inspect,
  O: inspect,
}

function formattedAs(kind, value) {
  try {
    return String(FORMATS[kind](value))
  } catch {
    return inspect(value)
  }
}

export function formatted(values) {
  let rest = values
  let text = ''
  if (typeof values[0] === 'string' && values.length > 1 && /%[sdifjoOc%]/.test(values[0])) {
    rest = values.slice(1)
    text = values[0].replace(/%([sdifjoOc%])/g, (found, kind) => {
      if (kind === '%') return '%'
      if (rest.length === 0) return found
      const [value] = rest.splice(0, 1)
      return kind === 'c' ? '' : formattedAs(kind, value)
    })
    return [text, ...rest.map((value) => inspect(value))].join(' ')
  }
  return rest.map((value) => inspect(value)).join(' ')
}

export const isClass = (value) => /^class\b/.test(Function.prototype.toString.call(value))

const NODE = 'plug-ins have no Node.js API'
const BROWSER = 'plug-ins have no browser'
/** What scripts for other hosts use. */
const ELSEWHERE = {
  ...{ process: NODE, Buffer: NODE, __dirname: NODE, __filename: NODE },
  ...{
    window: BROWSER,
    document: BROWSER,
    localStorage: BROWSER,
    XMLHttpRequest: BROWSER,
    WebSocket: BROWSER,
  },
}

export function describe(error) {
  if (!(error instanceof Error)) return `Uncaught ${inspect(error)}`
  const stack = framesOf(error).map(({ text }) => `\n    at ${text}`)
  const cause = error.cause === undefined ? '' : `\nCause: ${inspect(error.cause)}`
  return `${messageOf(error)}${stack.join('')}${cause}`
}

export function messageOf(error) {
  const missing = error instanceof ReferenceError && /^'?([\w$]+)'? is not defined$/.exec(error.message)?.[1]
  const why = missing && Object.hasOwn(ELSEWHERE, missing) ? `: ${ELSEWHERE[missing]}` : ''
  return `${error.name}: ${error.message}${why}`
}
