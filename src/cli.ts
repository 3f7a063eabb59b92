#!/usr/bin/env node
import { asksForThread } from './cli/thread-guess.ts'
import { prestartThread } from './engine/workers/thread-start.ts'
import { openCompileCache } from './platform/cache-folder.ts'
import { usePackedPackages } from './platform/packed-packages.ts'

openCompileCache(process.env)
usePackedPackages(process)
if (asksForThread(process.argv.slice(2), process.env)) prestartThread('kernel')
await import('./cli/program.ts') // after it: modules that are loaded before are not cached
