import { PACKAGE_ROOT } from '../package-root.ts'

/**
 * The file that a thread of ours is started from. Where the sources themselves are run, as tests do, it is what the
 * build made of them, too: Node 20 starts no thread from TypeScript.
 *
 * @param name - Of the thread's module, without its ending.
 */
export function workerFile(name: string): URL {
  return new URL(`dist/${name}.js`, PACKAGE_ROOT)
}
