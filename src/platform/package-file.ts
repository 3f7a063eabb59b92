import { existsSync, readFileSync } from 'node:fs'

/**
 * A file or folder of the package, by its path from where `package.json` is. Sources are two folders below it, what the
 * build bundles one.
 */
export function packageFile(path: string): URL {
  root ??= findRoot(new URL('./', import.meta.url))
  return new URL(path, root)
}

/** The package's version. */
export function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(packageFile('package.json'), 'utf8'))
  return version
}

/** The modules that threads and processes of ours are started from. */
export type ThreadModule =
  | 'config-thread'
  | 'extism-thread'
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
  return packageFile(`dist/${name}.${name === 'sdk-thread' ? 'js' : 'cjs'}`)
}

let root: URL | undefined

function findRoot(folder: URL): URL {
  const parent = new URL('../', folder)
  if (existsSync(new URL('package.json', folder)) || parent.href === folder.href) return folder
  return findRoot(parent)
}
