import { openCompileCache } from '../platform/cache-folder.ts'
import { leaveSignalsToParent } from '../platform/service-signals.ts'

/* The program of a serving process, which a primary starts: see `deploy/processes/`. */

leaveSignalsToParent()
openCompileCache(process.env)
await import('./serving-program.ts') // after it: modules that are loaded before are not cached
