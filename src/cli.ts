#!/usr/bin/env node
import { openCompileCache } from './platform/cache-folder.ts'

openCompileCache(process.env)
await import('./cli/program.ts') // after it: modules that are loaded before are not cached
