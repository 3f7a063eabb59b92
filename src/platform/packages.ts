import { existsSync, readFileSync } from 'node:fs'
import { PackageMissingError } from '../errors/errors.ts'

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

/**
 * Loads an optional package.
 *
 * @param purpose - The feature that needs it, for the message.
 * @param install - What to install with npm; default: the package.
 * @throws {@link PackageMissingError} with the line that installs it.
 */
export async function loadPackage<Module>(
  purpose: string,
  name: string,
  load: () => Promise<Module>,
  install = name,
): Promise<Module> {
  try {
    return await load()
  } catch (error) {
    // A missing dependency of the package itself is another mistake.
    if (!isMissing(error, name)) throw error
    throw new PackageMissingError(name, purpose, `npm install ${install}`, { cause: error })
  }
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error && 'code' in error)) return false
  return error.code === 'ERR_MODULE_NOT_FOUND' && error.message.includes(`package '${name}'`)
}
