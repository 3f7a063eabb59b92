import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { ConfigInvalidError, ConfigUnreadableError } from '../errors/errors.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import { whyNot } from '../platform/why-not.ts'
import type { Environment } from './config.ts'
import { isConfigFile } from './config-file-check.ts'
import { configFileSchema } from './config-file-schema.ts'
import { type FileProblem, FileTree, FileTreeEnd } from './file-tree.ts'
import { readValues } from './file-values.ts'
import { type FilePlace, type Given, type GivenMap, originAt, toData } from './given.ts'
import { routesOf } from './merge.ts'
import { problemsFound } from './options.ts'
import { prune } from './prune.ts'
import { type RoutePlace, routeConflicts } from './routes-table.ts'

/** What the files are called that are looked for. */
const NAMES = ['wasm-serve.json', 'wasm-serve.yaml', 'wasm-serve.yml', 'wasm-serve.toml']

/** Larger ones are taken for a mistake: YAML and TOML take time to the square of some lengths. */
const MAX_BYTES = 262_144

/** A screen of problems. */
const MAX_PROBLEMS = 30

type Reader = (text: string, tree: FileTree) => Given | undefined

/** By the end of a file's name. A parser is loaded by those who have such a file. */
const READERS: Readonly<Record<string, () => Promise<Reader>>> = {
  '.json': async () => (await import('./config-json.ts')).readJson,
  '.yaml': async () => (await import('./config-yaml.ts')).readYaml,
  '.yml': async () => (await import('./config-yaml.ts')).readYaml,
  '.toml': async () => (await import('./config-toml.ts')).readToml,
}

/**
 * The config file of a folder.
 *
 * @returns undefined if there is none.
 * @throws {@link ConfigUnreadableError} if there are several.
 */
export function findConfigFile(folder: string): string | undefined {
  const [found, other] = NAMES.filter((name) => existsSync(join(folder, name)))
  if (found !== undefined && other !== undefined)
    throw new ConfigUnreadableError(found, `there is ${other} too; name one of them with --config-file`)
  return found
}

/**
 * Reads and checks a config file; variables are put in, paths are absolute, defaults are not filled in.
 *
 * @param secrets - Gets the values of variables.
 * @param failed - Told of a {@link ConfigInvalidError} that lists every problem with its line and column; when it
 * returns, what is right in the file is returned. Default: it throws.
 * @throws {@link ConfigUnreadableError} if it cannot be read, {@link ConfigInvalidError} if nothing in it can.
 */
export async function readConfigFile(
  path: string,
  environment: Environment,
  secrets: Secrets,
  failed: (error: unknown) => void = raise,
): Promise<GivenMap> {
  const [, extension = ''] = /(\.[^./\\]+)$/.exec(path.toLowerCase()) ?? []
  const reader = READERS[extension]
  if (!reader)
    throw new ConfigUnreadableError(path, `its name must end in ${Object.keys(READERS).join(', ')}`)
  const text = decode(await readBytes(path), path)
  return parseConfig(text, await reader(), { path, environment, secrets }, failed)
}

function raise(error: unknown): never {
  throw error
}

interface ConfigText {
  readonly path: string
  readonly environment: Environment
  readonly secrets: Secrets
}

/** {@link readConfigFile} of a text that was read. */
export function parseConfig(
  text: string,
  read: Reader,
  { path, environment, secrets }: ConfigText,
  failed: (error: unknown) => void = raise,
): GivenMap {
  const tree = new FileTree(path)
  const given = readTree(text, read, tree)
  const problems = [...tree.problems]
  if (given?.kind === 'map') {
    const values = readValues(given, configFileSchema, {
      folder: dirname(resolve(path)),
      environment,
      plugins: keysOf(given.entries.get('plugins')?.given),
      secret: (value, shown) => secrets.add(value, shown),
      refuse: (origin, message) => problems.push({ place: origin as FilePlace, message }),
    })
    if (values.kind === 'map') {
      problems.push(...shapeProblems(values, problems), ...conflicts(values))
      if (problems.length === 0) return values
      failed(new ConfigInvalidError(path, render(problems)))
      return prune(
        values,
        problems.map(({ place }) => place),
      )
    }
  } else if (problems.length === 0) {
    tree.refuse({ line: 1, column: 1 }, 'a config file holds options by name, and this one holds none')
    problems.push(...tree.problems)
  }
  throw new ConfigInvalidError(path, render(problems))
}

function readTree(text: string, read: Reader, tree: FileTree): Given | undefined {
  try {
    return read(text, tree)
  } catch (error) {
    if (error instanceof FileTreeEnd) return undefined // the tree has the problem
    throw error
  }
}

/** What the schema has against the values, where nothing was found yet. */
function shapeProblems(values: Given, known: readonly FileProblem[]): FileProblem[] {
  if (isConfigFile(toData(values))) return []
  const places = new Set(known.map(({ place }) => placeKey(place)))
  return problemsFound(isConfigFile)
    .map(({ option, path, ofKey, message }) => ({
      place: originAt(values, path, ofKey) as FilePlace,
      message: `${option}: ${message}${ofKey && path.length === 1 ? whereElse(option) : ''}`,
    }))
    .filter(({ place }) => !places.has(placeKey(place)))
}

function whereElse(option: string): string {
  const { properties = {} } = configFileSchema.properties?.defaults ?? {}
  return Object.hasOwn(properties, option)
    ? '; it is an option of "defaults", of a plug-in or of a route'
    : ''
}

/** Routes that answer the same requests. */
function conflicts(values: GivenMap): FileProblem[] {
  const routes = routesOf(values) ?? []
  const places = routes.map(
    (route) => originAt(route, [route.entries.has('url') ? 'url' : 'plugin']) as FilePlace,
  )
  return routeConflicts(routes.map(placeOf)).flatMap(({ first, later }) => {
    const place = places[later]
    const message = `this URL is that of line ${places[first]?.line} too: give one of them another "url"`
    return place ? [{ place, message }] : []
  })
}

/** Its values may be anything: they are checked besides. */
function placeOf(route: GivenMap): RoutePlace {
  const { url = '/', host, method, contract } = toData(route) as Record<string, unknown>
  return {
    url: String(url),
    host: host === undefined ? undefined : String(host),
    method: method === undefined ? undefined : [method].flat().map(String),
    contract,
  }
}

function keysOf(given: Given | undefined): ReadonlySet<string> {
  return new Set(given?.kind === 'map' ? given.entries.keys() : [])
}

function placeKey({ line, column }: FilePlace): string {
  return `${line}:${column}`
}

function render(problems: readonly FileProblem[]): string {
  const lines = [...problems]
    .sort((a, b) => a.place.line - b.place.line || a.place.column - b.place.column)
    .map(({ place: { file, line, column }, message }) => `  ${file}:${line}:${column}: ${message}`)
  const more = lines.length - MAX_PROBLEMS
  return more > 0
    ? `${lines.slice(0, MAX_PROBLEMS).join('\n')}\n  and ${more} more problems`
    : lines.join('\n')
}

async function readBytes(path: string): Promise<Uint8Array> {
  try {
    const found = await stat(path)
    if (found.size > MAX_BYTES) throw new ConfigUnreadableError(path, `it is larger than ${MAX_BYTES} bytes`)
    if (found.isFile() || found.isDirectory()) return await readFile(path)
  } catch (error) {
    if (error instanceof ConfigUnreadableError) throw error
    throw new ConfigUnreadableError(path, whyNot(error), { cause: error })
  }
  // To read a pipe or a device may never end.
  throw new ConfigUnreadableError(path, 'it is not a regular file')
}

function decode(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes) // takes a byte order mark off
  } catch (error) {
    throw new ConfigUnreadableError(path, 'it is not UTF-8 text', { cause: error })
  }
}
