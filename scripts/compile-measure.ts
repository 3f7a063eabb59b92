import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LIMIT_NAMES, MODULE_LIMITS } from '../src/module/limits.ts'
import { readModule } from '../src/module/module.ts'
import { moduleWith, type Shape } from './compile-shapes.ts'

/** What V8 took, beside what Node.js itself takes. */
export interface Cost {
  /** Of CPU. */
  readonly seconds: number
  readonly mebibytes: number
}

/** The largest function of a shape that the limits accept. */
export interface Largest {
  readonly bytes: Uint8Array
  /** The size of its shape. */
  readonly count: number
  /** The limit that it reaches. */
  readonly limit: string
  /** How many of it the limits of a module accept. */
  readonly functions: number
}

/** As `boundOptimiser` of src/platform/node-workarounds.ts; and all functions are optimised at once. */
const OPTIMISED = [
  '--wasm-num-compilation-tasks=1',
  '--no-turbo-splitting',
  '--no-liftoff',
  '--no-wasm-lazy-compilation',
]

const PROGRAM = `
  const bytes = require('node:fs').readFileSync(process.argv[1])
  const memory = process.resourceUsage().maxRSS
  const before = process.cpuUsage()
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { e: { i() {} } })
  if (process.argv[2] === 'call') try { exports.f(0) } catch {}
  const { user, system } = process.cpuUsage(before)
  const mebibytes = (process.resourceUsage().maxRSS - memory) / 1024
  process.stdout.write(JSON.stringify({ seconds: (user + system) / 1e6, mebibytes }))
`

/** Of all functions, one after another. @param node - The program. */
export function optimise(bytes: Uint8Array, node = process.execPath): Cost {
  return measure(bytes, node, OPTIMISED)
}

/** Of the first call, without optimising. @param node - The program. */
export function call(bytes: Uint8Array, node = process.execPath): Cost {
  return measure(bytes, node, ['--liftoff-only'], 'call')
}

function measure(bytes: Uint8Array, node: string, flags: readonly string[], ...words: string[]): Cost {
  const folder = mkdtempSync(join(tmpdir(), 'compile-cost-'))
  try {
    const file = join(folder, 'f.wasm')
    writeFileSync(file, bytes)
    const all = [...flags, '-e', PROGRAM, file, ...words]
    return JSON.parse(execFileSync(node, all, { encoding: 'utf8', timeout: 60_000, stdio: 'pipe' }))
  } catch (error) {
    if (String(error).includes('CompileError')) throw error
    return { seconds: Number.POSITIVE_INFINITY, mebibytes: Number.POSITIVE_INFINITY } // it ended, or took a minute
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** @returns the largest function of a shape that the limits accept, within 2 %. */
export function largestOf(shape: (count: number) => Shape): Largest {
  let [low, high] = [1, 2]
  while (high < 2_000_000 && fillOf(moduleWith(shape(high))).part <= 1) [low, high] = [high, high * 2]
  while (high - low > low / 50) {
    const middle = Math.floor((low + high) / 2)
    if (fillOf(moduleWith(shape(middle))).part <= 1) low = middle
    else high = middle
  }
  const bytes = moduleWith(shape(low))
  const { limit, functions } = fillOf(bytes)
  return { bytes, count: low, limit, functions }
}

const UNLIMITED = Object.fromEntries(LIMIT_NAMES.map((name) => [name, Number.POSITIVE_INFINITY]))

/** The limit of which a module takes the largest part. */
function fillOf(bytes: Uint8Array) {
  const { figures } = readModule(bytes, { limits: UNLIMITED }, 'shape')
  const parts = LIMIT_NAMES.map((name) => figures[name] / MODULE_LIMITS[name].limit)
  const part = Math.max(...parts)
  const functions = Math.max(1, Math.floor(MODULE_LIMITS.allOptimisingCost.limit / figures.allOptimisingCost))
  return { part, limit: LIMIT_NAMES[parts.indexOf(part)] ?? '', functions }
}
