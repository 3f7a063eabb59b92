import module from 'node:module'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { makeFolder } from './make-folder.ts'
import { problemWithPath } from './trusted-path.ts'

/** The folder of all caches: `$XDG_CACHE_HOME/wasm-serve`, or `~/.cache/wasm-serve`. */
export function defaultCacheFolder(environment: Readonly<Record<string, string | undefined>>): string {
  const { XDG_CACHE_HOME: folder = '' } = environment
  // The XDG specification says to ignore relative paths.
  return join(isAbsolute(folder) ? folder : join(homeFolder(), '.cache'), 'wasm-serve')
}

/** `/` for a user without a home folder: containers run ids without a name, and `HOME` may be no absolute path. */
function homeFolder(): string {
  try {
    const folder = homedir()
    return isAbsolute(folder) ? folder : '/'
  } catch {
    return '/'
  }
}

/**
 * Enables the compile cache of Node.js (22.1 and later) for modules that are loaded from now on: V8 then reads their bytecode
 * from disk at the next start. V8 trusts that bytecode, so nothing is cached in a folder to which other users can write. Does
 * nothing if the cache is enabled already, or disabled by `NODE_DISABLE_COMPILE_CACHE`, or the folder cannot be written.
 */
export function openCompileCache(environment: Readonly<Record<string, string | undefined>>): void {
  const { enableCompileCache } = module as CompileCacheModule
  if (!enableCompileCache) return
  const folder = join(defaultCacheFolder(environment), 'v8')
  try {
    if (problemWithPath(folder) !== undefined) return
    makeFolder(folder, 0o700) // Node.js would let a group write to it where the umask does
    enableCompileCache(folder)
  } catch {
    // Without permission to read the path (--permission), or to make it, the modules are compiled.
  }
}

/** What newer versions add to `node:module`. */
interface CompileCacheModule {
  readonly enableCompileCache?: (folder: string) => unknown
}
