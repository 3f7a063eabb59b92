import { type Dirent, existsSync, statSync } from 'node:fs'
import { readdir, realpath } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { PluginUnreadableError } from '../errors/errors.ts'
import { callableExports } from '../module/entry-points.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { isUrl, sourceName } from '../plugin/source/url.ts'

/** A plug-in and where its routes begin. */
export interface Mount {
  /** Path or URL. */
  readonly source: string
  /** In Fastify's route syntax, without a slash at the end: empty for the root. */
  readonly path: string
  /** Its name in a route: a function of this name is served at `path` too. */
  readonly name: string
}

/** Mounts or routes, and for people the names that cannot be routes. */
export interface Mounted<Item> {
  readonly items: readonly Item[]
  readonly leftOut: readonly string[]
}

/** More than anybody serves: somebody named the wrong folder. */
const MAX_FOLDER_MOUNTS = 1_000

/**
 * Where the plug-ins of sources are mounted: a single file at the root, each of several at its name, each `.wasm` of a
 * folder at its path in there.
 *
 * @throws {@link PluginUnreadableError} if a folder cannot be read, or has no `.wasm` in it, or too many.
 */
export async function mountsOf(sources: readonly string[]): Promise<Mounted<Mount>> {
  const [only, ...others] = sources
  if (only !== undefined && others.length === 0 && !isFolder(only))
    return { items: [{ source: only, path: '', name: nameOf(only) }], leftOut: [] }
  const found = await Promise.all(
    sources.map((source) =>
      isFolder(source)
        ? mountsIn(source)
        : [{ source, path: `/${routePart(nameOf(source))}`, name: nameOf(source) }],
    ),
  )
  const mounts = found.flat()
  return {
    items: mounts.filter(({ path }) => !UNROUTABLE.test(path)),
    leftOut: mounts.filter(({ path }) => UNROUTABLE.test(path)).map(({ source }) => source),
  }
}

/** A mount for a plug-in that has a name of its own. */
export function mountAt(name: string, source: string): Mount {
  return { source, path: `/${routePart(name)}`, name }
}

/** Whether a word names a plug-in or a folder of them; a function's name looks like neither. */
export function isSource(word: string): boolean {
  return isUrl(word) || /[/\\]|\.(?:wasm|json)(?:#|$)/i.test(word) || existsSync(word)
}

export function isFolder(source: string): boolean {
  if (isUrl(source)) return false
  try {
    return statSync(source).isDirectory()
  } catch {
    return false // who loads it says why it cannot be read
  }
}

/** A route of a mounted plug-in. */
export interface MountedRoute {
  readonly url: string
  /** Undefined: the only one, or the one that all routes name. */
  readonly function?: string
}

/**
 * The only function at the mount. Of several, each at its name below it, and the one that is called like the plug-in
 * also at the mount itself.
 *
 * @param most - Functions that are served though none is named; of more, the first ones of the module.
 */
export function routesAt({ path, name }: Mount, plugin: Plugin, most: number): Mounted<MountedRoute> {
  const exports = callableExports(plugin).slice(0, most)
  const root = path || '/'
  if (exports.length < 2) return { items: [{ url: root }], leftOut: [] }
  const mounted = exports.filter((name) => !UNROUTABLE.test(name))
  return {
    items: [
      ...exports.filter((exported) => exported === name).map((name) => ({ url: root, function: name })),
      ...mounted.map((name) => ({ url: `${path}/${routePart(name)}`, function: name })),
    ],
    leftOut: exports.filter((name) => UNROUTABLE.test(name)),
  }
}

/** What Fastify's routes can match in no way, not even encoded: a wildcard, what ends a path, no name. */
const UNROUTABLE = /^\/?$|[*?#]/

/** In Fastify's route syntax a colon begins a parameter, and two are one. */
function routePart(name: string): string {
  return name.replaceAll(':', '::')
}

/** What a plug-in is called after its file. */
export function nameOf(source: string): string {
  const name = sourceName(source)
  return name.slice(0, name.length - extname(name).length)
}

async function mountsIn(folder: string): Promise<Mount[]> {
  const mounts: Mount[] = []
  await walkFolder(folder, '', new Set(), mounts, folder)
  if (mounts.length === 0) throw new PluginUnreadableError(folder, 'there is no .wasm file in this directory')
  return mounts
}

/** Hidden files and folders are not plug-ins, nor is what packages bring along; a folder that links lead to again is mounted once. */
async function walkFolder(
  folder: string,
  path: string,
  seen: Set<string>,
  mounts: Mount[],
  root: string,
): Promise<void> {
  const real = await realpath(folder)
  if (seen.has(real)) return
  seen.add(real)
  for (const entry of await entriesOf(folder)) {
    const place = join(folder, entry.name)
    if (entry.name.startsWith('.') || entry.name === 'node_modules') continue
    if (isFolder(place)) await walkFolder(place, `${path}/${routePart(entry.name)}`, seen, mounts, root)
    else if (/\.wasm$/i.test(entry.name)) {
      const name = nameOf(entry.name)
      mounts.push({ source: place, path: `${path}/${routePart(name)}`, name })
    }
    if (mounts.length > MAX_FOLDER_MOUNTS)
      throw new PluginUnreadableError(
        root,
        `there are more than ${MAX_FOLDER_MOUNTS} .wasm files in this directory`,
      )
  }
}

/** By name, links last: a folder is mounted at its own place rather than at that of a link to it. */
async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true })
    const rank = (entry: Dirent) => `${entry.isSymbolicLink() ? 1 : 0}${entry.name}`
    return entries.sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
  } catch (error) {
    throw new PluginUnreadableError(folder, (error as Error).message, { cause: error })
  }
}
