import { createRequire } from 'node:module'

/*
 * The packages that each start needs are one file of the built command, `packed-packages.cjs`, since finding, reading and compiling
 * their 170 files takes a sixth of a start.
 */

const requireInstalled = createRequire(import.meta.url)

// An import would load what the getters of these modules load.
const { existsSync, readFileSync, realpathSync } = builtin('node:fs') as typeof import('node:fs')
const { dirname, join } = builtin('node:path') as typeof import('node:path')
const { fileURLToPath } = builtin('node:url') as typeof import('node:url')

/** Versions without that function load this, too, before the command refuses them. */
function builtin(name: string): unknown {
  return 'getBuiltinModule' in process ? process.getBuiltinModule(name) : requireInstalled(name)
}

/** A package of `dist/packed-packages.cjs`. `packed-packages.json` lists them as the build found them; the first is wasm-serve. */
export interface PackedPackage {
  readonly name: string
  readonly version: string
  /** The packages that it requires: their places in the list. */
  readonly requires: readonly number[]
}

/** The exports of that file: what requires each package, by its name. */
type PackedModules = Readonly<Record<string, () => unknown>>

/** Those which are used. */
let modules = (): PackedModules => ({})

/** Loads a module: the built files require CommonJS packages and modules of Node.js with it. */
export function requireExternal(name: string): unknown {
  if (name.startsWith('node:')) return requireInstalled(name)
  const load = modules()[name]
  return load ? load() : requireInstalled(name)
}

/**
 * Lets this process use that file, if the same versions are installed: users can update each package by themselves. Nor is it
 * used if a module is preloaded, because tools for traces change packages while they are required. Called before any
 * package is loaded.
 */
export function usePackedPackages({ execArgv, env }: NodeJS.Process): void {
  const options = `${execArgv.join(' ')} ${env.NODE_OPTIONS ?? ''}`.replaceAll('_', '-')
  // A config file of Node.js can preload modules, too, and a module that is preloaded can hide its option.
  if (PRELOADS.test(options) || Object.keys(requireInstalled.cache).length > 0) return
  let opened: PackedModules | undefined
  modules = () => (opened ??= open())
}

function open(): PackedModules {
  const list = readFileSync(new URL('packed-packages.json', import.meta.url), 'utf8')
  const areSame = areInstalled(JSON.parse(list), fileURLToPath(new URL('..', import.meta.url)))
  return areSame ? (requireInstalled('./packed-packages.cjs') as PackedModules) : {}
}

const PRELOADS =
  /(?:^|[\s"])(?:-r|--require|--import|--loader|--experimental-(?:loader|(?:default-)?config-file))\b/

/** Whether Node.js finds these versions, each in one folder. @param root - The folder of the first. */
export function areInstalled(packages: readonly PackedPackage[], root: string): boolean {
  const folders = new Map<number, string>()
  return packages[0] !== undefined && requiresThese(packages[0], root)

  function requiresThese({ requires }: PackedPackage, folder: string): boolean {
    return requires.every((place) => {
      const required = packages[place]
      const found = required && folderOf(required.name, folder)
      if (!required || found === undefined) return false
      if (folders.has(place)) return folders.get(place) === found
      folders.set(place, found)
      return isPackage(found, required) && requiresThese(required, found)
    })
  }
}

/** A folder without it is no package, as an installation that failed can leave one. */
const DESCRIPTION = 'package.json'

/** Where Node.js finds a package that a file of a folder requires. */
export function folderOf(name: string, from: string): string | undefined {
  const folder = join(from, 'node_modules', name)
  if (existsSync(join(folder, DESCRIPTION))) return realpathSync.native(folder)
  const parent = dirname(from)
  return parent === from ? undefined : folderOf(name, parent)
}

/** Node.js reports a description that cannot be read, when it loads the package. */
function isPackage(folder: string, { name, version }: PackedPackage): boolean {
  try {
    const found = JSON.parse(readFileSync(join(folder, DESCRIPTION), 'utf8'))
    return found.name === name && found.version === version
  } catch {
    return false
  }
}
