import { createRequire } from 'node:module'

/*
 * The packages that each start needs are one file of the built command, `packed-packages.cjs`, since finding, reading and compiling
 * their 170 files takes a sixth of a start.
 */

// An import would load what the getters of these modules load.
const { existsSync, readFileSync, realpathSync } = process.getBuiltinModule('node:fs')
const { dirname, join } = process.getBuiltinModule('node:path')
const { fileURLToPath } = process.getBuiltinModule('node:url')

const requireInstalled = createRequire(import.meta.url)

/** A package of `dist/packed-packages.cjs`. */
export interface PackedPackage {
  readonly name: string
  readonly version: string
  /** The packages that it requires: their places in the list. */
  readonly requires: readonly number[]
}

interface PackedPackages {
  /** As the build found them. The first is wasm-serve. */
  readonly packages: readonly PackedPackage[]
  /** What requires each, by its name. */
  readonly modules: Readonly<Record<string, () => unknown>>
}

/** Those of that file which are used. */
let modules = (): PackedPackages['modules'] => ({})

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
  if (PRELOADS.test(`${execArgv.join(' ')} ${env.NODE_OPTIONS ?? ''}`)) return
  let opened: PackedPackages['modules'] | undefined
  modules = () => (opened ??= open())
}

function open(): PackedPackages['modules'] {
  const packed = requireInstalled('./packed-packages.cjs') as PackedPackages
  return areInstalled(packed.packages, fileURLToPath(new URL('..', import.meta.url))) ? packed.modules : {}
}

const PRELOADS = /(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader)\b/

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
      return versionIn(found) === required.version && requiresThese(required, found)
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

function versionIn(folder: string): unknown {
  return JSON.parse(readFileSync(join(folder, DESCRIPTION), 'utf8')).version
}
