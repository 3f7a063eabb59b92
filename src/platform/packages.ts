import { existsSync, readFileSync } from 'node:fs'

/**
 * A file or folder of this package, by its path relative to `package.json`. Sources are two folders below that, bundles
 * one.
 */
export function packageFile(path: string): URL {
  packageRoot ??= findRoot(new URL('./', import.meta.url))
  return new URL(path, packageRoot)
}

/** The package's version. Read once: a process without a free descriptor knows it, too. */
export function packageVersion(): string {
  version ??= JSON.parse(readFileSync(packageFile('package.json'), 'utf8')).version as string
  return version
}

let version: string | undefined

/** Modules that are the entry of a thread or process. */
type ThreadModule =
  | 'config-thread'
  | 'kernel-process'
  | 'kernel-thread'
  | 'load-thread'
  | 'sdk-thread'
  | 'watchdog-thread'

/**
 * The built file of a thread or process. It is the built file even where the sources run, as in tests: Node 20 starts no
 * thread from TypeScript.
 */
export function workerFile(name: ThreadModule): URL {
  // CommonJS starts some milliseconds sooner on Node 20; the SDK is loaded by an `await`, which it does not have.
  return packageFile(`dist/${name}.${name === 'sdk-thread' ? 'js' : 'cjs'}`)
}

/** The built program of a serving process. */
export function servingProgram(): URL {
  return packageFile('dist/serving-process.js')
}

let packageRoot: URL | undefined

function findRoot(folder: URL): URL {
  const parent = new URL('../', folder)
  if (existsSync(new URL('package.json', folder)) || parent.href === folder.href) return folder
  return findRoot(parent)
}
