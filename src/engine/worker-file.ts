import { PACKAGE_ROOT } from '../package-root.ts'

/** The modules that threads and processes of ours are started from. */
export type ThreadModule =
  | 'kernel-process'
  | 'kernel-thread'
  | 'load-thread'
  | 'sdk-thread'
  | 'watchdog-thread'

/**
 * The file that a thread of ours is started from. Where the sources themselves are run, as tests do, it is what the
 * build made of them, too: Node 20 starts no thread from TypeScript.
 */
export function workerFile(name: ThreadModule): URL {
  // CommonJS starts some milliseconds sooner on Node 20; the SDK is loaded by an `await`, which it does not have.
  return new URL(`dist/${name}.${name === 'sdk-thread' ? 'js' : 'cjs'}`, PACKAGE_ROOT)
}
