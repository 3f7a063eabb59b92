#!/usr/bin/env node
import { asksForThread } from './cli/thread-guess.ts'
import { prestartThread } from './engine/workers/thread-start.ts'
import { openCompileCache } from './platform/cache-folder.ts'
import { usePackedPackages } from './platform/packed-packages.ts'

if (!('getBuiltinModule' in process)) {
  const { version, stderr, exit } = process as NodeJS.Process
  stderr.write(`wasm-serve: Node.js ${version} is too old: use 20.19, or 22.12 or later\n`)
  exit(1)
}
openCompileCache(process.env)
usePackedPackages(process)
if (asksForThread(process.argv.slice(2), process.env)) prestartThread('kernel')
await import('./cli/program.ts') // after it: modules that are loaded before are not cached
