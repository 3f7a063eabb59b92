import { framesOf } from './stack.js'

/* Values and errors as text, for people. */

const MAX_DEPTH = 4
const MAX_ITEMS = 100

export function inspect(value, seen = []) {
  if (typeof value === 'string') return seen.length === 0 ? value : JSON.stringify(value)
  if (typeof value === 'bigint') return `${value}n`
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
  const shown = (item) => inspect(item, below)
  if (value instanceof ArrayBuffer) return `ArrayBuffer { byteLength: ${value.byteLength} }`
  if (Array.isArray(value) || (ArrayBuffer.isView(value) && 'length' in value)) {
    const items = listed(
      Array.from({ length: Math.min(value.length, MAX_ITEMS + 1) }, (_, at) => value[at]),
      value.length,
      shown,
    )
    return `${Array.isArray(value) ? '' : `${name}(${value.length}) `}[${items && ` ${items} `}]`
  }
  if (value instanceof Map) {
    const items = listed([...value], value.size, ([key, item]) => `${shown(key)} => ${shown(item)}`)
    return `Map(${value.size}) {${items && ` ${items} `}}`
  }
  if (value instanceof Set) {
    const items = listed([...value], value.size, shown)
    return `Set(${value.size}) {${items && ` ${items} `}}`
  }
  const entries = Object.entries(value)
  const items = listed(
    entries,
    entries.length,
    ([key, item]) => `${/^[\w$]+$/.test(key) ? key : JSON.stringify(key)}: ${shown(item)}`,
  )
  return `${name && name !== 'Object' ? `${name} ` : ''}{${items && ` ${items} `}}`
}

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

export function formatted(values) {
  let rest = values
  let text = ''
  if (typeof values[0] === 'string' && values.length > 1 && /%[sdifjoOc%]/.test(values[0])) {
    rest = values.slice(1)
    text = values[0].replace(/%([sdifjoOc%])/g, (found, kind) => {
      if (kind === '%') return '%'
      if (rest.length === 0) return found
      const [value] = rest.splice(0, 1)
      return kind === 'c' ? '' : String(FORMATS[kind](value))
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
