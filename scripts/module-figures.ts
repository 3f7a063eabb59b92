import { readFileSync } from 'node:fs'
import { LIMIT_NAMES, type LimitName, MODULE_LIMITS } from '../src/module/limits.ts'
import { readModule } from '../src/module/module.ts'

/* npm run modules -- FILE.wasm...: prints the compilation cost of modules, with the limits. */

const UNLIMITED = Object.fromEntries(LIMIT_NAMES.map((name) => [name, Number.POSITIVE_INFINITY]))

/** The most of each, and where. */
const most = new Map<LimitName, { readonly value: number; readonly file: string }>()
let bytesRead = 0
let microseconds = 0

for (const file of process.argv.slice(2)) {
  const bytes = readFileSync(file)
  const before = process.cpuUsage()
  try {
    const { figures, needsProcess } = readModule(bytes, { limits: UNLIMITED, allowGc: true }, file)
    if (needsProcess) process.stdout.write(`${file}: needs --allow-gc: ${needsProcess}\n`)
    for (const name of LIMIT_NAMES) {
      const value = figures[name]
      if (value > MODULE_LIMITS[name].limit)
        process.stdout.write(`${file}: needs --module-limit ${name}=${value}\n`)
      if (value >= (most.get(name)?.value ?? 0)) most.set(name, { value, file })
    }
  } catch (error) {
    process.stdout.write(`${error instanceof Error ? error.message : error}\n`)
  }
  const { user, system } = process.cpuUsage(before)
  microseconds += user + system
  bytesRead += bytes.length
}

for (const [name, { value, file }] of most) {
  process.stdout.write(
    `${name.padEnd(18)}${String(value).padStart(12)} of ${MODULE_LIMITS[name].limit}  ${file}\n`,
  )
}
process.stdout.write(`read ${(bytesRead / Math.max(1, microseconds)).toFixed(0)} MB for each second of CPU\n`)
