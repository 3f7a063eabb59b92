import { existsSync, realpathSync } from 'node:fs'
import { createRequire, isBuiltin } from 'node:module'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { BuildFailure, BuildOptions, BuildResult, Message, Plugin } from 'esbuild'
import { ScriptInvalidError } from '../errors/errors.ts'
import { loadPackage } from '../platform/optional-package.ts'
import type { SourceMap } from './script.ts'

/** A script with all that it imports. */
interface Bundle {
  readonly source: string
  readonly map: SourceMap
}

/** Why plug-ins cannot import modules of Node.js. */
export const NO_NODE = 'plug-ins have no Node.js API'

/**
 * Compiles a script and bundles what it imports, by esbuild: that of the working folder, else that beside this package; never that of the
 * script's own folder, whose code would run here. Of packages it takes what they have for browsers, which have no Node.js API either.
 *
 * @param what - What needs it, for the message.
 * @param onFile - Receives the path of each file, also if one has a mistake.
 * @throws {@link ScriptInvalidError} with the place; `PackageMissingError` if there is no esbuild.
 */
export async function bundleScript(
  path: string,
  what: string,
  onFile: (path: string) => void = () => undefined,
): Promise<Bundle> {
  const { build } = await loadPackage(what, 'esbuild', importEsbuild)
  const folder = dirname(resolve(path))
  const options: BuildOptions = {
    entryPoints: [resolve(path)],
    absWorkingDir: folder,
    outfile: resolve(folder, 'script.js'),
    bundle: true,
    external: ['wasm-serve:*'],
    write: false,
    metafile: true,
    format: 'esm',
    platform: 'neutral',
    mainFields: ['browser', 'module', 'main'],
    conditions: ['browser'],
    define: { 'process.env.NODE_ENV': '"production"' },
    target: 'es2023',
    charset: 'utf8',
    sourcemap: 'external',
    sourcesContent: false,
    logLevel: 'silent',
    plugins: [within(projectOf(folder))],
  }
  const result = await build(options).catch((error: unknown) => {
    const errors = isBuildFailure(error) ? error.errors : []
    for (const { location } of errors) if (location) onFile(resolve(folder, location.file))
    const [first] = errors
    if (!first) throw error
    throw new ScriptInvalidError(placeOf(first, folder, path), reasonOf(first))
  })
  for (const file of Object.keys(result.metafile?.inputs ?? {})) onFile(resolve(folder, file))
  return bundleOf(result)
}

/** The folder of the nearest `package.json`, or the given one. */
function projectOf(folder: string): string {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(join(at, 'package.json'))) return at
    if (at === dirname(at)) return folder
  }
}

/**
 * Refuses files that are neither in a folder nor in a package that is installed there or above: a script could publish what it imports,
 * such as JSON.
 */
function within(folder: string): Plugin {
  const root = realpathSync(folder)
  const isIn = (path: string, place: string) => {
    const way = relative(place, path)
    return !way.split(sep).includes('..') && !isAbsolute(way)
  }
  const packages = `${sep}node_modules${sep}`
  return {
    name: 'within',
    setup({ onLoad }) {
      onLoad({ filter: /.*/, namespace: 'file' }, ({ path }) => {
        const [above = ''] = path.split(packages, 1)
        if (isIn(path, root) || (path.includes(packages) && isIn(root, above || sep))) return undefined
        return {
          errors: [{ text: `a script cannot import ${path}, which is not in its project, ${folder}` }],
        }
      })
    },
  }
}

async function importEsbuild(): Promise<typeof import('esbuild')> {
  try {
    return await import(pathToFileURL(createRequire(resolve('package.json')).resolve('esbuild')).href)
  } catch {
    return import('esbuild')
  }
}

function bundleOf({ outputFiles = [] }: BuildResult): Bundle {
  const textOf = (end: string) => outputFiles.find(({ path }) => path.endsWith(end))?.text ?? ''
  const { sources, mappings } = JSON.parse(textOf('.map')) as SourceMap
  return { source: textOf('.js'), map: { sources, mappings } }
}

function isBuildFailure(error: unknown): error is BuildFailure {
  return error instanceof Error && 'errors' in error && Array.isArray(error.errors)
}

function placeOf({ location }: Message, folder: string, path: string): string {
  if (!location) return path
  const file = relative(folder, resolve(folder, location.file))
  const shown = file === basename(path) ? path : resolve(folder, file)
  return `${shown}:${location.line}:${location.column + 1}`
}

function reasonOf({ text }: Message): string {
  const name = /^Could not resolve "(.+)"$/.exec(text)?.[1]
  if (name === undefined) return text
  return `it imports ${JSON.stringify(name)}: ${isBuiltin(name) ? NO_NODE : 'there is no such file or package'}`
}
