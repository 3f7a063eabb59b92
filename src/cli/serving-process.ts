import { openCompileCache } from '../platform/cache-folder.ts'
import { usePackedPackages } from '../platform/packed-packages.ts'
import { leaveSignalsToParent } from '../platform/service-signals.ts'

/* The program of a serving process, which a primary starts: see `deploy/processes/`. */

leaveSignalsToParent()
openCompileCache(process.env)
usePackedPackages(process)
await import('./serving-program.ts') // after it: modules that are loaded before are not cached
