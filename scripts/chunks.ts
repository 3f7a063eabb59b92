import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { OutputOptions } from 'rolldown'
import { file } from './bundle.ts'

/** Where starts begin. Each loads what it imports statically, and what these import. */
const STARTS: Readonly<Record<string, readonly string[]>> = {
  first: ['src/cli.ts'], // before the compile cache is open
  program: ['src/cli/program.ts'],
  tools: [
    'src/cli/inspect/inspect.ts',
    'src/cli/call.ts',
    'src/cli/new/new.ts',
    'src/cli/store/store.ts',
    'src/cli/cache.ts',
  ],
}

/**
 * Puts what the command loads to serve into few files: Node.js takes about as long to find and to link a file as to compile
 * it, and by itself the bundler makes one for each combination of starts, some sixty. What another start needs too is in a file that
 * does not lead to Fastify.
 */
export function startChunks(): NonNullable<OutputOptions['codeSplitting']> {
  const serving = closureOf(['src/cli/serving.ts'])
  const others = Object.entries(STARTS).map(([name, starts]) => ({ name, files: closureOf(starts) }))
  const name = (path: string): string | null => {
    if (!serving.has(path)) return null
    return others.find(({ files }) => files.has(path))?.name ?? 'serving'
  }
  return { includeDependenciesRecursively: false, groups: [{ name, debugName: 'starts' }] }
}

/** The files that these lead to by static imports, types left out. */
function closureOf(starts: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>()
  const visit = (path: string): void => {
    if (found.has(path)) return
    found.add(path)
    for (const [, target = ''] of readFileSync(path, 'utf8').matchAll(STATIC_IMPORT))
      visit(resolve(dirname(path), target))
  }
  for (const start of starts) visit(file(start))
  return found
}

const STATIC_IMPORT = /^(?:import|export)\s+(?!type\b)[^'"]*?'(\.[^']+\.tsx?)'/gm
