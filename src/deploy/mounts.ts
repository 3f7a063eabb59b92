import { type Dirent, existsSync, statSync } from 'node:fs'
import { readdir, realpath } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { PluginUnreadableError } from '../errors/errors.ts'
import { callableExports } from '../module/entry-points.ts'
import { printable } from '../platform/text.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { isServedScript, isUrl, nameOfSource, sourceName } from '../plugin/source/url.ts'

/** A plug-in and the base path of its routes. */
export interface Mount {
  /** Path or URL. */
  readonly source: string
  /** The path in Fastify's route syntax, without a trailing slash: empty for the root. */
  readonly path: string
  /** The plug-in's name in a route. A function with this name is also served at `path`. */
  readonly name: string
  /** The name of the plug-in. */
  readonly plugin: string
}

/** Mounts or routes, and the skipped names that cannot be routes, for messages. */
export interface Mounted<Item> {
  readonly items: readonly Item[]
  readonly leftOut: readonly string[]
}

/**
 * The mounts of plug-in sources: a single file at the root, each of several at its name, each module of a folder at its
 * relative path, or each script of a folder without modules.
 *
 * @throws {@link PluginUnreadableError} if a folder cannot be read, or contains no plug-in.
 */
export async function mountsOf(sources: readonly string[]): Promise<Mounted<Mount>> {
  const [only, ...others] = sources
  if (only !== undefined && others.length === 0 && !isFolder(only))
    return { items: [{ source: only, path: '', name: nameOf(only), plugin: nameOfWord(only) }], leftOut: [] }
  const found = await Promise.all(
    sources.map((source) =>
      isFolder(source)
        ? mountsIn(source)
        : [{ ...mountAt(nameOf(source), source), plugin: nameOfWord(source) }],
    ),
  )
  const items: Mount[] = []
  const leftOut: string[] = []
  for (const mount of found.flat()) {
    if (isRoutable(mount.path)) items.push(mount)
    else leftOut.push(mount.source)
  }
  return { items, leftOut }
}

/** A mount for a plug-in that has its own name. */
export function mountAt(name: string, source: string): Mount {
  return { source, path: `/${routePart(name)}`, name, plugin: name }
}

/** The name of a plug-in of the command line: a file's is that of its route, wherever the file is. */
export function nameOfWord(source: string): string {
  return isUrl(source) ? nameOfSource(source) : nameOf(source)
}

/** Whether an argument names a plug-in or a folder of them; the name of a function looks like neither. */
export function isSource(word: string): boolean {
  return isUrl(word) || /[/\\]|\.(?:wasm|json|[cm]?[jt]sx?)(?:#|$)/i.test(word) || existsSync(word)
}

export function isFolder(source: string): boolean {
  if (isUrl(source)) return false
  try {
    return statSync(source).isDirectory()
  } catch {
    return false // the loader reports why it cannot be read
  }
}

/** A route of a mounted plug-in. */
export interface MountedRoute {
  readonly url: string
  /** undefined: the only function, or the one that all routes name. */
  readonly function?: string
}

/** Makes a route for each chosen function, at its name below the mount. `missing` lists names that cannot be served. */
export function chosenRoutes(
  { path }: Mount,
  plugin: Plugin,
  chosen: readonly string[],
): { readonly items: readonly MountedRoute[]; readonly missing: readonly string[] } {
  const all = callableExports(plugin)
  return {
    items: chosen.map((name) => ({ url: `${path}/${routePart(name)}`, function: name })),
    missing: chosen.filter((name) => !all.includes(name) || !isRoutable(`/${name}`)),
  }
}

/**
 * A single function is served at the mount; each of several at its name below the mount. The function named like the
 * plug-in is also served at the mount itself.
 *
 * @param most - Maximum number of functions served when none is named: the first ones of the module.
 */
export function routesAt({ path, name }: Mount, plugin: Plugin, most: number): Mounted<MountedRoute> {
  const all = callableExports(plugin)
  const exports = all.slice(0, most)
  const root = path || '/'
  if (all.length < 2) return { items: [{ url: root }], leftOut: [] }
  const mounted = exports.filter((name) => isRoutable(`/${name}`))
  return {
    items: [
      ...exports.filter((exported) => exported === name).map((name) => ({ url: root, function: name })),
      ...mounted.map((name) => ({ url: `${path}/${routePart(name)}`, function: name })),
    ],
    leftOut: exports.filter((name) => !isRoutable(`/${name}`)),
  }
}

/**
 * Whether a path of names is the URL of what it names. A wildcard is that of others, too, and clients read some names in another way:
 * `..`, `%41`, `a?b`, a space at the end.
 */
export function isRoutable(path: string): boolean {
  if (/^\/*$|\*|%[\da-f]{2}/i.test(path) || printable(path) !== path) return false
  const url = `http://host${path.replaceAll('%', '%25')}`
  if (!URL.canParse(url)) return false
  const { pathname, search, hash } = new URL(url)
  return decodeURIComponent(pathname) === path && search + hash === ''
}

/** Fastify's route syntax starts a parameter with a colon and writes a literal colon as two. */
function routePart(name: string): string {
  return name.replaceAll(':', '::')
}

/** The name of a route, derived from the file's. */
function nameOf(source: string): string {
  const name = sourceName(source)
  return name.slice(0, name.length - extname(name).length)
}

async function mountsIn(folder: string): Promise<Mount[]> {
  const modules: Mount[] = []
  const scripts: Mount[] = []
  await walkFolder(folder, '', '', new Set(), modules, scripts)
  // Scripts beside modules are their sources, or use them.
  const mounts = modules.length > 0 ? modules : scripts
  if (mounts.length === 0)
    throw new PluginUnreadableError(folder, 'there is no .wasm file and no script in this directory')
  return mounts
}

/**
 * Skips hidden files and folders and installed packages. A folder with several links to it is mounted once.
 *
 * @param path - Of the folder, in Fastify's route syntax.
 * @param below - Its relative path, which starts the names of its plug-ins.
 */
async function walkFolder(
  folder: string,
  path: string,
  below: string,
  seen: Set<string>,
  modules: Mount[],
  scripts: Mount[],
): Promise<void> {
  const real = await realpath(folder)
  if (seen.has(real)) return
  seen.add(real)
  for (const entry of await entriesOf(folder)) {
    const place = join(folder, entry.name)
    if (entry.name.startsWith('.') || entry.name === 'node_modules') continue
    if (entry.isDirectory() || (entry.isSymbolicLink() && isFolder(place))) {
      const deeper = `${path}/${routePart(entry.name)}`
      await walkFolder(place, deeper, `${below}${entry.name}/`, seen, modules, scripts)
      continue
    }
    const isModule = /\.wasm$/i.test(entry.name)
    if (!isModule && !isServedScript(`${below}${entry.name}`)) continue
    const name = nameOf(entry.name)
    const mount = { ...mountAt(name, place), path: `${path}/${routePart(name)}`, plugin: `${below}${name}` }
    ;(isModule ? modules : scripts).push(mount)
  }
}

/** The entries sorted by name, links last: a folder is mounted at its own place, not at a link's. */
async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true })
    const rank = (entry: Dirent) => `${entry.isSymbolicLink() ? 1 : 0}${entry.name}`
    return entries.sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
  } catch (error) {
    throw new PluginUnreadableError(folder, (error as Error).message, { cause: error })
  }
}
