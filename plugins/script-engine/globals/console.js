import { formatted } from './inspect.js'
import { performance } from './timers.js'

const LEVELS = { trace: 0, debug: 1, log: 2, info: 2, warn: 3, error: 4 }
let indent = ''
const counts = new Map()
const times = new Map()

function write(level, values) {
  const text = formatted(values)
  host.log(LEVELS[level], (indent ? text.replace(/^/gm, indent) : text).toWellFormed())
}

export const console = {
  ...Object.fromEntries(Object.keys(LEVELS).map((level) => [level, (...values) => write(level, values)])),
  assert: (holds, ...values) => {
    if (!holds) write('error', values.length > 0 ? ['Assertion failed:', ...values] : ['Assertion failed'])
  },
  dir: (value) => write('log', [value]),
  table: (rows) => {
    for (const [key, row] of Object.entries(rows ?? {})) write('log', [`${key}:`, row])
  },
  count: (label = 'default') => {
    counts.set(label, (counts.get(label) ?? 0) + 1)
    write('log', [`${label}: ${counts.get(label)}`])
  },
  countReset: (label = 'default') => void counts.delete(label),
  group: (...values) => {
    if (values.length > 0) write('log', values)
    indent += '  '
  },
  groupEnd: () => {
    indent = indent.slice(2)
  },
  time: (label = 'default') => void times.set(label, performance.now()),
  timeLog: (label = 'default', ...values) => write('log', [`${label}: ${sinceOf(label)} ms`, ...values]),
  timeEnd: (label = 'default') => {
    write('log', [`${label}: ${sinceOf(label)} ms`])
    times.delete(label)
  },
}
console.groupCollapsed = console.group

const sinceOf = (label) => (performance.now() - (times.get(label) ?? performance.now())).toFixed(3)
