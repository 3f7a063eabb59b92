import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Worker } from 'node:worker_threads'
import { ConfigInvalidError, ConfigUnreadableError, UsageError } from '../errors/errors.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import { workerFile } from '../platform/packages.ts'
import { fileProblem } from '../platform/system-errors.ts'
import { didYouMean, printable } from '../platform/text.ts'
import { isUrl } from '../plugin/source/url.ts'
import { withoutInvalid } from './check-config.ts'
import { type Environment, refuseUnknownVariables } from './config.ts'
import { configFileSchema, schemaAt } from './config-file-schema.ts'
import {
  type ConfigEntry,
  type ConfigList,
  type ConfigMap,
  type ConfigNode,
  type ConfigScalar,
  type ConfigTemplate,
  type FilePosition,
  type Origin,
  originAt,
  toData,
} from './config-node.ts'
import type { ConfigText, FileProblem } from './config-reader.ts'
import { type ConfigFormat, hasVariables, interpolate, readConfigText, variablesIn } from './config-text.ts'
import { type Flag, flags, isEntryKind, kindOf, parseValue } from './flags.ts'
import { configRoutes } from './merge.ts'
import { checkValue, type Problem, type Schema } from './schema.ts'
import { type RouteIdentity, routeConflicts } from './served-route.ts'

/** Names of config files that are found without a flag. */
const DEFAULT_FILES = ['wasm-serve.json', 'wasm-serve.yaml', 'wasm-serve.yml']

/** A name that is looked for last, only to report that it is not supported. */
const TOML_NAME = 'wasm-serve.toml'

/** The size above which files are rejected: YAML takes quadratic time for some inputs. */
const MAX_CONFIG_BYTES = 262_144

const SERVER_AT_TOP = 'options of the server, such as "port", are at the top'

/** Maximum number of reported problems: one screen. */
const MAX_PROBLEMS = 30

/** Formats by file extension. */
const FORMATS: Readonly<Record<string, ConfigFormat>> = { '.json': 'json', '.yaml': 'yaml', '.yml': 'yaml' }

/**
 * Finds the config file of a folder.
 *
 * @param onFile - Called with each path at which one may appear.
 * @returns undefined if there is none. A TOML file only if there is no other: {@link readConfigFile} refuses it.
 * @throws {@link ConfigUnreadableError} if there are several.
 */
export function findConfigFile(folder: string, onFile?: (path: string) => void): string | undefined {
  for (const name of DEFAULT_FILES) onFile?.(join(folder, name))
  const [found, other] = DEFAULT_FILES.filter((name) => existsSync(join(folder, name)))
  if (found !== undefined && other !== undefined)
    throw new ConfigUnreadableError(found, `${other} exists too; select one of them with --config-file`)
  return found ?? (existsSync(join(folder, TOML_NAME)) ? TOML_NAME : undefined)
}

/**
 * Reads and checks a config file. Variables are substituted, paths are absolute, defaults are not filled in.
 *
 * @param secrets - Receives the values of variables.
 * @param failed - Receives a {@link ConfigInvalidError} that lists every problem with its line and column; when it
 * returns, the valid part of the file is returned. Default: it throws.
 * @param isServing - Whether the event loop serves requests meanwhile: then a large file is parsed in a thread.
 * @throws {@link ConfigUnreadableError} if it cannot be read, {@link ConfigInvalidError} if none of it is valid.
 */
export async function readConfigFile(
  path: string,
  environment: Environment,
  secrets: Secrets,
  failed: (error: unknown) => void = raise,
  isServing = false,
): Promise<ConfigMap> {
  const format = formatOf(path)
  const text = decodeUtf8(await readConfigBytes(path), path)
  refuseUnknownVariables(environment, variablesIn(text))
  const isLong = isServing && text.length > LONG_TEXT
  const read = await (isLong ? readInThread : readConfigText)(text, format, path)
  return checkConfig(read, { path, environment, secrets }, failed)
}

/** Characters of a file that takes more than a few milliseconds to parse. */
const LONG_TEXT = 4_096

async function readInThread(text: string, format: ConfigFormat, path: string): Promise<ConfigText> {
  const worker = new Worker(workerFile('config-thread'), {
    name: 'wasm-serve config',
    workerData: [text, format, path],
    execArgv: [], // without the preloads of the process
  })
  try {
    const [read]: ConfigText[] = await Promise.race([
      once(worker, 'message'),
      once(worker, 'exit').then(() => []),
    ])
    if (read) return read
  } finally {
    await worker.terminate()
  }
  throw new ConfigUnreadableError(path, 'the thread that reads it has exited')
}

function formatOf(path: string): ConfigFormat {
  const [, extension = ''] = /(\.[^./\\]+)$/.exec(path.toLowerCase()) ?? []
  if (extension === '.toml') throw new ConfigUnreadableError(path, NO_TOML)
  const format = FORMATS[extension]
  if (format) return format
  throw new ConfigUnreadableError(path, `its name must end in ${Object.keys(FORMATS).join(', ')}`)
}

/** The message for a TOML file, with the remedy. */
const NO_TOML =
  'config files are YAML (.yaml, .yml) or JSON (.json); TOML is not supported: rewrite it as YAML'

const NO_MAP = 'a config file must be a map of options, such as {"plugins":{"hello":{"source":"hello.wasm"}}}'

function raise(error: unknown): never {
  throw error
}

interface ConfigContext {
  readonly path: string
  readonly environment: Environment
  readonly secrets: Secrets
}

/** {@link readConfigFile} of a text. */
export async function parseConfig(
  text: string,
  format: ConfigFormat,
  context: ConfigContext,
  failed: (error: unknown) => void = raise,
): Promise<ConfigMap> {
  return checkConfig(await readConfigText(text, format, context.path), context, failed)
}

function checkConfig(
  { node, problems: unread }: ConfigText,
  { path, environment, secrets }: ConfigContext,
  failed: (error: unknown) => void,
): ConfigMap {
  const problems = [...unread]
  if (node?.kind === 'map') {
    const values = readValues(node, configFileSchema, {
      folder: dirname(resolve(path)),
      environment,
      plugins: keysOf(node.entries.get('plugins')?.configured),
      secret: (value, shown) => secrets.add(value, shown),
      refuse: (origin, message) => problems.push({ place: origin as FilePosition, message }),
    })
    if (values.kind === 'map') {
      problems.push(...shapeProblems(values, problems), ...routeConflictProblems(values))
      if (problems.length === 0) return values
      failed(new ConfigInvalidError(path, renderProblem(problems)))
      return withoutInvalid(
        values,
        problems.map(({ place }) => place),
      )
    }
  } else if (problems.length === 0) {
    const place: FilePosition = { kind: 'file', file: path, line: 1, column: 1 }
    problems.push({ place, message: NO_MAP })
  }
  throw new ConfigInvalidError(path, renderProblem(problems))
}

/** The problems that the schema finds, except where a problem was found before. */
function shapeProblems(values: ConfigNode, known: readonly FileProblem[]): FileProblem[] {
  const found: Problem[] = []
  checkValue(toData(values), configFileSchema, found)
  const places = new Set(known.map(({ place }) => placeKey(place)))
  return found
    .map(({ option, path, ofKey, message }) => ({
      place: originAt(values, path, ofKey) as FilePosition,
      message: `${option}: ${ofKey ? unknownKey(path, message) : message}`,
    }))
    .filter(({ place }) => !places.has(placeKey(place)))
}

/** Adds where an option belongs that is unknown at a path. */
function unknownKey(path: readonly string[], message: string): string {
  const name = path.at(-1) ?? ''
  const { properties: top = {} } = configFileSchema
  const has = (schema: Schema | undefined) => Object.hasOwn(schema?.properties ?? {}, name)
  const flag = flags.find((each) => each.name === name && each.option !== name)
  if (flag && path.length < 4) return `unknown option; did you mean "${flag.option}"${placeOf(flag, path)}?`
  if (message.includes('did you mean')) return message
  const advice =
    path[0] === 'routes' && name === 'source' ? 'did you mean "plugin"?' : KEYS_OF_OTHERS.get(name)
  if (advice !== undefined) return `${message}; ${advice}`
  if (path.length === 1 && has(top.defaults))
    return `${message}; it is an option of "defaults", of a plug-in or of a route`
  if (has(top.routes?.items))
    return `${message}; it is an option of a route, such as ${JSON.stringify(top.routes?.examples?.[0])}`
  return path.length > 1 && Object.hasOwn(top, name)
    ? `${message}; it is an option of the server, at the top of the file`
    : message
}

function placeOf({ scope }: Flag, path: readonly string[]): string {
  if (scope === 'route' && path.length === 1) return ' in "defaults", a plug-in or a route'
  return scope !== 'route' && path.length > 1 ? ' at the top of the file' : ''
}

/** Keys that other tools have, and what does the same here. */
const KEYS_OF_OTHERS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    metrics: 'the listeners of "probes" and "admin" serve /metrics',
    server: SERVER_AT_TOP,
    http: SERVER_AT_TOP,
    listen: SERVER_AT_TOP,
    logging: '"logLevel" and "accessLog" are at the top',
    plugin: 'did you mean "plugins"?',
    path: 'did you mean "url"?',
    handler: 'did you mean "function"?',
    export: 'did you mean "function"?',
  }),
)

/** Routes that match the same requests. */
function routeConflictProblems(values: ConfigMap): FileProblem[] {
  const routes = configRoutes(values) ?? []
  const places = routes.map(
    (route) => originAt(route, [route.entries.has('url') ? 'url' : 'plugin']) as FilePosition,
  )
  return routeConflicts(routes.map(routeIdentityOf)).flatMap(({ first, later }) => {
    const place = places[later]
    const message = `this URL is also that of line ${places[first]?.line}: change one "url"`
    return place ? [{ place, message }] : []
  })
}

/** The place of a route. Its values are unchecked: other checks cover them. */
function routeIdentityOf(route: ConfigMap): RouteIdentity {
  const { url = '/', host, method, contract } = toData(route) as Record<string, unknown>
  return {
    url: String(url),
    host: host === undefined ? undefined : String(host),
    method: method === undefined ? undefined : [method].flat().map(String),
    contract,
  }
}

function keysOf(node: ConfigNode | undefined): ReadonlySet<string> {
  return new Set(node?.kind === 'map' ? node.entries.keys() : [])
}

function placeKey({ line, column }: FilePosition): string {
  return `${line}:${column}`
}

function renderProblem(problems: readonly FileProblem[]): string {
  const lines = [...problems]
    .sort((a, b) => a.place.line - b.place.line || a.place.column - b.place.column)
    .map(({ place: { file, line, column }, message }) => `  ${file}:${line}:${column}: ${printable(message)}`)
  const more = lines.length - MAX_PROBLEMS
  return more > 0
    ? `${lines.slice(0, MAX_PROBLEMS).join('\n')}\n  and ${more} more problems`
    : lines.join('\n')
}

async function readConfigBytes(path: string): Promise<Uint8Array> {
  try {
    const found = await stat(path)
    if (found.size > MAX_CONFIG_BYTES)
      throw new ConfigUnreadableError(path, `it is larger than ${MAX_CONFIG_BYTES} bytes`)
    if (found.isFile() || found.isDirectory()) return await readFile(path)
  } catch (error) {
    if (error instanceof ConfigUnreadableError) throw error
    throw new ConfigUnreadableError(path, fileProblem(error), { cause: error })
  }
  // Reading a pipe or a device may never end.
  throw new ConfigUnreadableError(path, 'it is not a regular file')
}

function decodeUtf8(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes) // removes a byte order mark
  } catch (error) {
    throw new ConfigUnreadableError(path, 'it is not UTF-8 text', { cause: error })
  }
}

/** The context for reading values of a config file. */
interface ValueContext {
  /** The folder of relative paths. */
  readonly folder: string
  readonly environment: Environment
  /** Names that are valid as a route's `plugin`. */
  readonly plugins: ReadonlySet<string>
  /** Receives each secret value and its replacement for output. */
  secret(value: string, shown: string): void
  refuse(origin: Origin, message: string): void
}

/**
 * Converts the values of a config file as its schema requires: variables of the environment are substituted, sizes such
 * as `64KiB` become numbers, paths absolute. Values that do not fit the schema are left for the check.
 *
 * @param name - The name of the option.
 */
function readValues(
  node: ConfigNode,
  schema: Schema | undefined,
  context: ValueContext,
  name = '',
): ConfigNode {
  switch (node.kind) {
    case 'map':
      return readMap(node, schema, context)
    case 'list':
      return readList(node, schema, context, name)
    case 'scalar':
      return typeof node.value === 'string' ? readFileText(node, node.value, schema, context, name) : node
  }
}

function readMap(node: ConfigMap, schema: Schema | undefined, context: ValueContext): ConfigMap {
  const entries = new Map<string, ConfigEntry>()
  for (const [key, entry] of node.entries) {
    if (hasVariables(key)) context.refuse(entry.origin, 'a variable is allowed in a value only, not in a key')
    const name = schema?.holds === 'folders' ? absoluteFolder(key, context.folder) : key
    entries.set(name, {
      ...entry,
      configured: readValues(entry.configured, schemaAt(key, schema), context, key),
    })
  }
  return { ...node, entries }
}

function readList(
  node: ConfigList,
  schema: Schema | undefined,
  context: ValueContext,
  name: string,
): ConfigList {
  return { ...node, items: node.items.map((item) => readValues(item, schema?.items, context, name)) }
}

function readFileText(
  node: ConfigScalar,
  raw: string,
  schema: Schema | undefined,
  context: ValueContext,
  name: string,
): ConfigScalar {
  if (name === '$schema') return node
  const { text, variables, problems } = interpolate(raw, context.environment)
  for (const problem of problems) context.refuse(node.origin, problem)
  if (problems.length > 0) return node
  const isSecret = schema !== undefined && !isPublic(schema)
  if (isSecret) {
    for (const variable of variables) context.secret(context.environment[variable] ?? '', `\${${variable}}`)
  }
  const shown = hasVariables(raw) ? raw : schema?.secret ? '(secret)' : undefined
  if (schema?.secret && shown !== undefined) context.secret(text, shown)
  const template = hasVariables(raw) ? templateOf(raw, schema, isSecret) : undefined
  const filled: ConfigScalar = {
    ...node,
    value: text,
    ...(shown !== undefined && { shown }),
    ...(template && { template }),
  }
  if (schema && isNumber(schema)) return readNumber(filled, schema, context, name)
  if (!schema?.holds || (name === 'plugin' && context.plugins.has(text))) return filled
  if (name === 'plugin') refuseUnknownKeys(filled, text, context)
  return absolutePath(filled, text, schema, context)
}

function templateOf(text: string, schema: Schema | undefined, isSecret: boolean): ConfigTemplate {
  const kind = schema ? kindOf(schema) : 'string'
  const isText = isEntryKind(kind) || kind === 'hosts' || !schema || !isNumber(schema)
  return { text, kind: isText ? 'string' : kind, isSecret, isPath: schema?.holds !== undefined }
}

/** Reports a word that is neither a file nor a name of `plugins`. */
function refuseUnknownKeys(node: ConfigScalar, text: string, context: ValueContext): void {
  if (context.plugins.size === 0 || /[.:/\\]/.test(text) || existsSync(resolve(context.folder, text))) return
  const shown = node.shown ?? text
  context.refuse(node.origin, `there is no plug-in "${shown}"${didYouMean(shown, context.plugins)}`)
}

/** Numbers, switches and predefined names are not secret, and every client knows addresses and URLs. */
function isPublic(schema: Schema): boolean {
  const isName = schema.enum !== undefined || schema.anyOf !== undefined
  return isNumber(schema) || isName || schema.public === true
}

function isNumber({ type, threadCount }: Schema): boolean {
  return type === 'integer' || type === 'boolean' || threadCount === true
}

/** Kinds whose text has a unit, also in a file. */
const WITH_UNITS: ReadonlySet<string> = new Set(['size', 'pages', 'time'])

/** Text for a number or a switch: a size, a time, or the value of a variable. Other text is left to the check. */
function readNumber(node: ConfigScalar, schema: Schema, context: ValueContext, name: string): ConfigScalar {
  const kind = kindOf(schema)
  if (isEntryKind(kind) || kind === 'hosts' || (node.shown === undefined && !WITH_UNITS.has(kind)))
    return node
  try {
    return { ...node, value: parseValue(kind, String(node.value), name, node.shown) as number | boolean }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    context.refuse(node.origin, error.message)
    return node
  }
}

function absolutePath(node: ConfigScalar, text: string, schema: Schema, context: ValueContext): ConfigScalar {
  const [, variable] = /^(~|\$[A-Za-z_]\w*)(?:\/|$)/.exec(text) ?? []
  if (variable !== undefined) {
    const name = variable === '~' ? 'HOME' : variable.slice(1)
    context.refuse(node.origin, `"${variable}" is not replaced in a config file: write "\${${name}}"`)
    return node
  }
  if ((schema.holds === 'source' || schema.holds === 'folder') && isUrl(text)) return node
  if (schema.holds === 'address' && !text.includes('/')) return node
  if (schema.holds === 'store' && !text.startsWith(LMDB)) return node
  const value =
    schema.holds === 'store'
      ? LMDB + resolve(context.folder, text.slice(LMDB.length))
      : schema.holds === 'folder'
        ? absoluteFolder(text, context.folder)
        : resolve(context.folder, text)
  if (node.shown !== undefined) context.secret(value, node.shown)
  return { ...node, value, written: text }
}

/** The URL scheme of the only store that has a folder. */
const LMDB = 'lmdb:'

function absoluteFolder(path: string, folder: string): string {
  const [, mode = '', host = ''] = /^(ro:)?(.*)$/s.exec(path) ?? []
  return mode + resolve(folder, host)
}
