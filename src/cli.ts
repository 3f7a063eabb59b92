#!/usr/bin/env node
import { asksForThread } from './cli/thread-guess.ts'
import { prestartThread } from './engine/workers/thread-start.ts'
import { openCompileCache } from './platform/cache-folder.ts'
import { usePackedPackages } from './platform/packed-packages.ts'

const problem = problemWithNode()
if (problem !== undefined) {
  process.stderr.write(`wasm-serve: ${problem}\n`)
  process.exit(1)
}
openCompileCache(process.env)
usePackedPackages(process)
if (asksForThread(process.argv.slice(2), process.env)) prestartThread('kernel')
await import('./cli/program.ts') // after it: modules that are loaded before are not cached

/** Why the command cannot run here. */
function problemWithNode(): string | undefined {
  if (!('getBuiltinModule' in process))
    return `Node.js ${(process as NodeJS.Process).version} is too old: use 20.19, or 22.12 or later`
  if (typeof WebAssembly === 'undefined')
    return 'this process has no WebAssembly: start Node.js without --jitless'
  try {
    new Function()
  } catch {
    return 'Fastify generates code: start Node.js without --disallow-code-generation-from-strings'
  }
  return undefined
}
