import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { UsageError } from '../errors/errors.ts'
import { didYouMean } from '../platform/nearest.ts'
import { isUrl } from '../plugin/source/url.ts'
import type { Environment } from './config.ts'
import type { Schema } from './config-file-schema.ts'
import { isEntryKind, kindOf, parseValue } from './flags.ts'
import type { Given, GivenEntry, GivenList, GivenMap, GivenScalar, Origin } from './given.ts'
import { hasVariables, interpolate } from './interpolation.ts'

/** What the values of a config file are read with. */
export interface FileContext {
  /** Relative paths are relative to it. */
  readonly folder: string
  readonly environment: Environment
  /** Names that a route's `plugin` may have instead of a path. */
  readonly plugins: ReadonlySet<string>
  /** Told of each value that must not be shown, and what to show. */
  secret(value: string, shown: string): void
  refuse(origin: Origin, message: string): void
}

/**
 * Reads the values of a config file as its schema wants them: variables of the environment are put in, sizes such as
 * `64KiB` become numbers, paths absolute. What does not fit the schema is left for the check.
 *
 * @param name - The option that is read.
 */
export function readValues(given: Given, schema: Schema | undefined, context: FileContext, name = ''): Given {
  switch (given.kind) {
    case 'map':
      return readMap(given, schema, context)
    case 'list':
      return readList(given, schema, context, name)
    case 'scalar':
      return typeof given.value === 'string' ? readText(given, given.value, schema, context, name) : given
  }
}

function readMap(given: GivenMap, schema: Schema | undefined, context: FileContext): GivenMap {
  const entries = new Map<string, GivenEntry>()
  for (const [key, entry] of given.entries) {
    if (hasVariables(key)) context.refuse(entry.origin, 'a variable can stand in a value only, not in a key')
    const name = schema?.holds === 'folders' ? absoluteFolder(key, context.folder) : key
    entries.set(name, { ...entry, given: readValues(entry.given, schemaOf(key, schema), context, key) })
  }
  return { ...given, entries }
}

function readList(
  given: GivenList,
  schema: Schema | undefined,
  context: FileContext,
  name: string,
): GivenList {
  return { ...given, items: given.items.map((item) => readValues(item, schema?.items, context, name)) }
}

function schemaOf(key: string, schema: Schema | undefined): Schema | undefined {
  const { properties = {}, patternProperties = {}, additionalProperties } = schema ?? {}
  if (Object.hasOwn(properties, key)) return properties[key]
  const [ofAll] = Object.values(patternProperties)
  return ofAll ?? (typeof additionalProperties === 'object' ? additionalProperties : undefined)
}

function readText(
  given: GivenScalar,
  raw: string,
  schema: Schema | undefined,
  context: FileContext,
  name: string,
): GivenScalar {
  if (name === '$schema') return given
  const { text, variables, problems } = interpolate(raw, context.environment)
  for (const problem of problems) context.refuse(given.origin, problem)
  if (problems.length > 0) return given
  if (schema && !isPublic(name, schema)) {
    for (const variable of variables) context.secret(context.environment[variable] ?? '', `\${${variable}}`)
  }
  const shown = hasVariables(raw) ? raw : schema?.secret ? '(secret)' : undefined
  if (schema?.secret && shown !== undefined) context.secret(text, shown)
  const filled: GivenScalar =
    shown !== undefined ? { ...given, value: text, shown } : { ...given, value: text }
  if (schema && isNumber(schema)) return readNumber(filled, schema, context, name)
  if (!schema?.holds || (name === 'plugin' && context.plugins.has(text))) return filled
  if (name === 'plugin') refuseUnknown(filled, text, context)
  return absolutePath(filled, text, schema, context)
}

/** A word that is no file is a name of `plugins`, and one that is not there. */
function refuseUnknown(given: GivenScalar, text: string, context: FileContext): void {
  if (context.plugins.size === 0 || /[.:/\\]/.test(text) || existsSync(resolve(context.folder, text))) return
  const shown = given.shown ?? text
  context.refuse(given.origin, `there is no plug-in "${shown}"${didYouMean(shown, context.plugins)}`)
}

/** Numbers, switches and names that we give hold no secrets, and everybody who connects knows addresses and URLs. */
function isPublic(name: string, schema: Schema): boolean {
  const isName = schema.enum !== undefined || schema.anyOf !== undefined
  return isNumber(schema) || isName || PUBLIC.includes(name)
}

const PUBLIC = ['host', 'socket', 'url', 'admin', 'adminHosts', 'redactHeaders']

function isNumber({ type, threadCount }: Schema): boolean {
  return type === 'integer' || type === 'boolean' || threadCount === true
}

/** Text in the place of a number or a switch: a size, or what a variable holds. Other text is left to the check. */
function readNumber(given: GivenScalar, schema: Schema, context: FileContext, name: string): GivenScalar {
  const kind = kindOf(name, schema)
  if (
    isEntryKind(kind) ||
    kind === 'hosts' ||
    (given.shown === undefined && kind !== 'size' && kind !== 'pages')
  )
    return given
  try {
    return { ...given, value: parseValue(kind, String(given.value), name, given.shown) as number | boolean }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    context.refuse(given.origin, error.message)
    return given
  }
}

function absolutePath(given: GivenScalar, text: string, schema: Schema, context: FileContext): GivenScalar {
  if (schema.holds === 'source' && isUrl(text)) return given
  if (schema.holds === 'address' && !text.includes('/')) return given
  if (schema.holds === 'store' && !text.startsWith(LMDB)) return given
  const value =
    schema.holds === 'store'
      ? LMDB + resolve(context.folder, text.slice(LMDB.length))
      : resolve(context.folder, text)
  if (given.shown !== undefined) context.secret(value, given.shown)
  return { ...given, value }
}

/** Begins the name of the only store that has a folder. */
const LMDB = 'lmdb:'

function absoluteFolder(path: string, folder: string): string {
  const [, mode = '', host = ''] = /^(ro:)?(.*)$/s.exec(path) ?? []
  return mode + resolve(folder, host)
}
