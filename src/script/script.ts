import { extname } from 'node:path'
import type { HostFunction } from './host-functions.ts'

/** A script that is to become a plug-in: JavaScript without imports of files. */
export interface Script {
  /** Its name in stacks. */
  readonly file: string
  readonly source: string
  /** undefined: it is a module if it is not valid as CommonJS. */
  readonly isModule: boolean | undefined
  /** The functions of the host that it declares. */
  readonly hostFunctions: readonly HostFunction[]
  /** Where its lines come from, if it was bundled. */
  readonly map?: SourceMap | undefined
}

/** What of a source map (version 3) finds places. */
export interface SourceMap {
  readonly sources: readonly string[]
  readonly mappings: string
}

/** What running a script shows. */
export interface ScriptFacts {
  /** The names of the functions that it exports. */
  readonly functions?: readonly string[]
  /** Why it cannot run, and where. */
  readonly message?: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
  /** The imports that were not found. */
  readonly missing: readonly string[]
  /** The modules of wasm-serve that it imports. */
  readonly used?: readonly string[]
}

/** Whether a file has a script, by its name. */
export function isScript(path: string): boolean {
  return /^\.[cm]?[jt]sx?$/.test(extname(path).toLowerCase()) && !/\.d\.[cm]?ts$/i.test(path)
}

/** Whether a file is a module, by its name; undefined if either is possible. */
export function isModuleFile(path: string): boolean | undefined {
  const kind = extname(path)[1]?.toLowerCase()
  return kind === 'm' ? true : kind === 'c' ? false : undefined
}
