import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire, isBuiltin } from 'node:module'
import { basename, dirname, join, resolve } from 'node:path'
import { ScriptInvalidError } from '../../errors/errors.ts'
import { bundleScript, NO_NODE } from '../../script/bundle.ts'
import type { BuiltScript } from '../../script/engine.ts'
import { DeclarationError, type HostFunction, readHostFunctions } from '../../script/host-functions.ts'
import { isModuleFile, type Script, type ScriptFacts } from '../../script/script.ts'
import { buildInThread } from '../load-threads.ts'

/** How a script is read. */
interface ScriptOptions {
  readonly signal?: AbortSignal | undefined
  /** Receives the path of each file that it imports. */
  readonly onFile?: ((path: string) => void) | undefined
  /** Whether its digest or signature is checked, which does not cover other files: then it may import none. */
  readonly isAlone: boolean
}

/**
 * Makes a plug-in of a script. Its types are removed by Node.js; what needs more than that is compiled and bundled by esbuild.
 *
 * @throws {@link ScriptInvalidError} with the file, line and column; `PackageMissingError` if it needs esbuild;
 * `PluginLoadFailedError` if it does not end; the reason of the signal.
 */
export async function pluginOfFile(
  path: string,
  bytes: Uint8Array,
  options: ScriptOptions,
): Promise<Uint8Array> {
  const file = basename(path)
  const source = textOf(bytes, path)
  const hostFunctions = await hostFunctionsOf(path, source, options)
  const written: Script = { file, source, isModule: isModuleFile(file), hostFunctions }
  const hasTypes = /\.[cm]?ts$/i.test(file)
  const first = /x$/i.test(file) ? {} : await buildInThread({ script: written, hasTypes }, options)
  const missing = first.facts && importOf(first.facts)
  // They are found when they run, which may be never.
  const hasImports = /\bimport\s*\(\s*['"`]/.test(written.source)
  if (first.facts && !hasImports && (missing === undefined || isOfNode(missing, path)))
    return finish(first, written, path)
  if (options.isAlone)
    throw new ScriptInvalidError(path, 'its digest or signature covers this file only, and it needs more')
  const what = missing === undefined && !hasImports ? `the TypeScript of ${path}` : `an import of ${path}`
  const bundle = await bundleScript(path, what, options.onFile)
  const bundled: Script = { file, ...bundle, isModule: true, hostFunctions }
  return finish(await buildInThread({ script: bundled, hasTypes: false }, options), bundled, path)
}

/**
 * The functions of the host that a script declares: itself, or in the file of declarations beside it, as Extism's JavaScript compiler reads
 * them.
 */
async function hostFunctionsOf(
  path: string,
  source: string,
  options: ScriptOptions,
): Promise<readonly HostFunction[]> {
  const own = declaredIn(path, source)
  if (own.length > 0) return own
  const beside = path.replace(/\.([cm]?)[jt]sx?$/i, '.d.$1ts')
  if (!existsSync(beside)) return []
  options.onFile?.(beside)
  const text = await readFile(beside, 'utf8')
  const functions = declaredIn(beside, text)
  if (functions.length > 0 && options.isAlone)
    throw new ScriptInvalidError(
      path,
      `its digest or signature covers this file only, and not ${beside}: declare the functions of the host in the script`,
    )
  return functions
}

/** @throws {@link ScriptInvalidError} with the place in the file. */
function declaredIn(path: string, text: string): readonly HostFunction[] {
  try {
    return readHostFunctions(text)
  } catch (error) {
    if (!(error instanceof DeclarationError)) throw error
    throw new ScriptInvalidError(placeAt(path, text, error.at), error.message)
  }
}

function placeAt(path: string, text: string, at: number): string {
  const before = text.slice(0, at).split('\n')
  return `${path}:${before.length}:${(before.at(-1)?.length ?? 0) + 1}`
}

/** The import for which a script has failed. Others may be tried. */
function importOf({ message, missing }: ScriptFacts): string | undefined {
  return message === undefined ? undefined : missing[0]
}

function finish({ facts, plugin }: Partial<BuiltScript>, script: Script, path: string): Uint8Array {
  if (plugin) return plugin
  const missing = facts && importOf(facts)
  if (missing !== undefined) {
    const why = isOfNode(missing, path) ? NO_NODE : 'there is no such file or package'
    throw new ScriptInvalidError(
      placeOfImport(script, missing, path),
      `it imports ${JSON.stringify(missing)}: ${why}`,
    )
  }
  const { message = 'it cannot run', file = script.file, line, column = 1 } = facts ?? {}
  const place = file === script.file ? path : join(dirname(path), file)
  throw new ScriptInvalidError(
    line === undefined ? path : `${place}:${line}:${column}`,
    message + adviceFor(message, script.source.split('\n')[(line ?? 0) - 1]),
  )
}

/** What a syntax error does not say. */
function adviceFor(message: string, line = ''): string {
  const isAwait = message.startsWith('SyntaxError') && /\bawait\b/.test(line)
  return isAwait ? '; "await" needs a function that is declared "async"' : ''
}

/** Whether a name is that of a module of Node.js, and of no package that is installed, such as `buffer`. */
function isOfNode(name: string, path: string): boolean {
  if (!isBuiltin(name)) return false
  try {
    createRequire(resolve(path)).resolve(`${name}/package.json`)
    return false
  } catch {
    return true
  }
}

function placeOfImport({ source }: Script, name: string, path: string): string {
  const at = [`'${name}'`, `"${name}"`, `\`${name}\``]
    .map((text) => source.indexOf(text))
    .find((found) => found >= 0)
  return at === undefined ? path : placeAt(path, source, at)
}

function textOf(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw new ScriptInvalidError(path, 'it is not UTF-8 text', { cause: error })
  }
}
