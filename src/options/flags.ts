import { UsageError } from '../errors/errors.ts'
import { PAGE_BYTES } from '../platform/guest-limits.ts'
import { parseLink } from '../plugin/source/url.ts'
import { loadSchema, routeSchema, serverSchema } from './options-schema.ts'

/** A flag of the command line. Its name, kind and description come from the option's schema. */
export interface Flag {
  /** As written after `--`. */
  readonly name: string
  /** The environment variable for the same option. */
  readonly variable: string
  /** The option's name; a part of an option has a dot: `tls.cert`. */
  readonly option: string
  readonly scope: 'route' | 'server' | 'load'
  readonly kind: FlagKind | EntryKind | 'hosts'
  readonly description: string
  /** The allowed values; undefined: any. */
  readonly values: readonly string[]
  readonly default: unknown
}

/** Flags that are given once; `hosts` may be repeated, each use adds one. */
export type FlagKind = 'boolean' | 'integer' | 'size' | 'pages' | 'threads' | 'string' | 'list'

/**
 * Repeatable flags, each of which adds an entry: `K=V`, `HOST[:GUEST]`, `[NAME=]SOURCE`, `K=NUMBER`, `PREFIX=KEY[,KEY]`,
 * `HOST=insecure` or `HOST=CA`.
 */
type EntryKind = 'pairs' | 'paths' | 'links' | 'numbers' | 'keys' | 'registries'

interface OptionSchema {
  readonly type?: string
  readonly properties?: Readonly<Record<string, OptionSchema>>
  readonly description?: string
  readonly default?: unknown
  readonly enum?: readonly string[]
  readonly threadCount?: boolean
  readonly unit?: 'bytes' | 'pages' | 'ms'
  readonly nameOrContract?: readonly string[]
  readonly anyOf?: readonly object[]
}

/** Flags that are named as in Extism's command. */
const NAMES: Readonly<Record<string, string>> = {
  allowedHosts: 'allow-host',
  allowedPaths: 'allow-path',
  links: 'link',
  moduleLimits: 'module-limit',
  registries: 'registry',
  headers: 'header',
  timeoutMs: 'timeout',
  'mcp.enabled': 'mcp',
  'fleet.url': 'fleet',
}

const ENTRY_KINDS: Readonly<Record<string, EntryKind>> = {
  allowedPaths: 'paths',
  links: 'links',
  moduleLimits: 'numbers',
  registries: 'registries',
  trust: 'keys',
}

/** Options with functions, which a command line cannot express. */
const HOOKS = ['onCall', 'onResult', 'onError']

/**
 * Options without a flag: those that the command line expresses differently, those that a single route does not need,
 * lists of a Fastify plugin, and keys, which every user of the machine could read there.
 */
const NO_FLAGS: Readonly<Record<Flag['scope'], readonly string[]>> = {
  route: [
    ...['plugin', 'host', 'description', 'smoke', 'tool', 'websocketOrigins', 'websocketProtocols'],
    ...HOOKS,
  ],
  load: [],
  server: [
    ...[
      'routes',
      'trial',
      'tls.minVersion',
      'apiKeys',
      'jwt.secret',
      'cors',
      'rateLimit',
      'compress',
      'static',
      ...HOOKS,
    ],
    ...['adminToken', 'adminHosts', 'redactHeaders'],
    ...[
      'hosts',
      'origins',
      'name',
      'title',
      'version',
      'instructions',
      'pageSize',
      'ttlMs',
      'bodyLimit',
      'access',
      'resource',
      'authorizationServers',
      'audit',
      'redactArguments',
      'stateSecret',
      'rateLimit',
    ].map((part) => `mcp.${part}`),
    ...['keyPrefix', 'history', 'moduleMax', 'allow'].map((part) => `fleet.${part}`),
  ],
}

/** Options that only a config file can set, keyed by their would-be flag names. */
export const fileOptions: ReadonlyMap<string, string> = new Map(
  [...NO_FLAGS.route, ...NO_FLAGS.server]
    .filter((option) => option !== 'trial' && !HOOKS.includes(option))
    .map((option) => [flagName(option), option]),
)

/** Options with a variable but, for the same reason, without a flag: a single value, not a list. */
const VARIABLES_ONLY = ['adminToken']

export const flags: readonly Flag[] = [
  ...flagsOf('route', routeSchema),
  ...flagsOf('load', loadSchema),
  ...flagsOf('server', serverSchema),
]

/** Variables of the environment: one for each flag, and those without a flag. */
export const variables: readonly Flag[] = [
  ...flags,
  ...Object.entries<OptionSchema>(serverSchema.properties as Record<string, OptionSchema>)
    .filter(([option]) => VARIABLES_ONLY.includes(option))
    .map(([option, schema]) => flagOf('server', option, schema)),
]

function flagsOf(scope: Flag['scope'], schema: { properties: object }): Flag[] {
  return Object.entries<OptionSchema>(schema.properties as Record<string, OptionSchema>)
    .filter(([option]) => !NO_FLAGS[scope].includes(option)) // filtered first, because cors has parts too
    .flatMap(([option, schema]) => withParts(option, schema))
    .filter(([part]) => !NO_FLAGS[scope].includes(part))
    .map(([option, schema]) => flagOf(scope, option, schema))
}

function flagOf(scope: Flag['scope'], option: string, schema: OptionSchema): Flag {
  const name = flagName(option)
  const variable = `WASM_SERVE_${name.replaceAll('-', '_').toUpperCase()}`
  const { description = '', default: value, nameOrContract = [], enum: values = nameOrContract } = schema
  return { name, variable, option, scope, kind: kindOf(option, schema), description, values, default: value }
}

/** An option with parts has one flag per part. */
function withParts(option: string, schema: OptionSchema): [option: string, schema: OptionSchema][] {
  if (!schema.properties || ENTRY_KINDS[option]) return [[option, schema]]
  return Object.entries(schema.properties).map(([part, schema]) => [`${option}.${part}`, schema])
}

/** `bodyLimit` is `body-limit`, and `tls.cert` is `tls-cert`. */
export function flagName(option: string): string {
  return (
    NAMES[option] ?? option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replaceAll('.', '-')
  )
}

/** The kind of an option's text: in a flag, a variable, or a config file's `${NAME}`. */
export function kindOf(
  option: string,
  { type, anyOf, threadCount, unit }: Pick<OptionSchema, 'type' | 'anyOf' | 'threadCount' | 'unit'>,
): Flag['kind'] {
  if (threadCount) return 'threads'
  if (anyOf) return 'list'
  if (type === 'boolean') return 'boolean'
  if (type === 'object') return ENTRY_KINDS[option] ?? 'pairs'
  if (type === 'array') return 'hosts'
  if (unit === 'pages') return 'pages'
  if (type === 'integer') return unit === 'bytes' ? 'size' : 'integer'
  return 'string'
}

/**
 * Parses the text of a flag or its variable as the option's value; its range is checked with the other options.
 *
 * @param where - For the message: `--port`, or `WASM_SERVE_PORT`.
 * @param shown - The text for messages; it replaces a possible secret.
 * @throws {@link UsageError} if it is not of the flag's kind.
 */
export function parseValue(kind: FlagKind, text: string, where: string, shown = text): unknown {
  switch (kind) {
    case 'string':
      return text
    case 'list':
      return text.split(',').map((item) => item.trim())
    case 'boolean':
      if (/^(?:true|1|yes|on)$/i.test(text)) return true
      if (/^(?:false|0|no|off)$/i.test(text)) return false
      throw new UsageError(`${where}: must be true or false, not "${shown}"`)
    case 'threads':
      if (text === 'auto') return text
      if (/^-?\d{1,15}$/.test(text)) return Number(text)
      throw new UsageError(`${where}: must be a whole number or auto, not "${shown}"`)
    case 'integer':
      if (/^-?\d{1,15}$/.test(text)) return Number(text)
      throw new UsageError(`${where}: must be a whole number, not "${shown}"`)
    case 'size': {
      const bytes = parseSize(text)
      if (bytes !== undefined) return bytes
      throw new UsageError(`${where}: must be a size such as 65536, 64KiB or 1MB, not "${shown}"`)
    }
    case 'pages': {
      if (/^\d{1,15}$/.test(text)) return Number(text)
      const bytes = parseSize(text)
      if (bytes !== undefined) return Math.floor(bytes / PAGE_BYTES)
      throw new UsageError(
        `${where}: must be a number of pages of 64 KiB, or a size such as 128MiB, not "${shown}"`,
      )
    }
  }
}

/**
 * Parses a list from a variable: a JSON array of strings, or comma-separated strings.
 *
 * @throws {@link UsageError} if it begins like JSON but is not valid.
 */
export function parseHosts(text: string, where: string): string[] {
  if (!/^\s*\[\s*["\]]/.test(text)) return text.split(',').map((item) => item.trim())
  const value = parseJsonFlag(text)
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
  throw new UsageError(`${where}: must be a JSON array of strings, or a comma-separated list`)
}

export function isEntryKind(kind: Flag['kind']): kind is EntryKind {
  return ENTRY_KIND_NAMES.includes(kind)
}

const ENTRY_KIND_NAMES: readonly string[] = ['pairs', ...Object.values(ENTRY_KINDS)]

/**
 * Parses one use of a repeatable flag.
 *
 * @throws {@link UsageError} if it is not of the flag's kind.
 */
export function parseFlagEntry(kind: EntryKind, text: string, where: string): FlagEntry {
  if (kind === 'pairs') return parsePair(text, where)
  if (kind === 'numbers') return parseNumber(text, where)
  if (kind === 'paths') return parsePath(text, where)
  if (kind === 'keys') return parseTrust(text, where)
  if (kind === 'registries') return parseRegistry(text, where)
  const { name, source } = parseLink(text)
  if (!name || !source) throw new UsageError(`${where}: must be NAME=PATH or a path or URL, not "${text}"`)
  return [name, source]
}

export type FlagEntry = [key: string, value: string | number | object]

/** `PREFIX=KEY[,KEY]`. A policy with more than keys needs a config file. */
function parseTrust(text: string, where: string): FlagEntry {
  const [, prefix, files = ''] = /^([^=]+)=(.+)$/s.exec(text) ?? []
  if (prefix === undefined)
    throw new UsageError(`${where}: must be PREFIX=KEY, such as ghcr.io/acme/=acme.pub, not "${text}"`)
  return [prefix, { keys: files.split(',') }]
}

/** `HOST=insecure`, or `HOST=CA` with a file. */
function parseRegistry(text: string, where: string): FlagEntry {
  const [, host, setting = ''] = /^([^=]+)=(.+)$/s.exec(text) ?? []
  if (host === undefined)
    throw new UsageError(
      `${where}: must be HOST=insecure, or HOST=FILE with its certificate authority, not "${text}"`,
    )
  return [host, setting === 'insecure' ? { insecure: true } : { ca: setting }]
}

function parseNumber(text: string, where: string): FlagEntry {
  const [, name, number] = /^([^=]+)=(\d{1,15})$/.exec(text) ?? []
  if (name === undefined) throw new UsageError(`${where}: must be NAME=NUMBER, not "${text}"`)
  return [name, Number(number)]
}

function parsePair(text: string, where: string): [key: string, value: string] {
  const at = text.indexOf('=')
  if (at < 1) throw new UsageError(`${where}: must be KEY=VALUE, not "${text}"`)
  return [text.slice(0, at), text.slice(at + 1)]
}

/** `[ro:]HOST[:GUEST]`; the guest's path defaults to the host's. */
function parsePath(text: string, where: string): [host: string, guest: string] {
  const [, mode = '', host = '', guest = host] = /^(ro:)?([^:]*)(?::(.*))?$/s.exec(text) ?? []
  if (!host || !guest) throw new UsageError(`${where}: must be HOST or HOST:GUEST, not "${text}"`)
  return [mode + host, guest]
}

/**
 * Parses entries from a variable: a JSON object, or a JSON array of the flag's values.
 *
 * @throws {@link UsageError} if it is neither.
 */
export function parseFlagEntries(kind: EntryKind, text: string, where: string): FlagEntry[] {
  const value = parseJsonFlag(text)
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) {
    return value.map((item) => parseFlagEntry(kind, item, where))
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const pairs = Object.entries(value)
    const wanted = ENTRY_TYPES[kind] ?? 'string'
    if (pairs.every((pair): pair is FlagEntry => typeof pair[1] === wanted)) return pairs
  }
  throw new UsageError(
    `${where}: must be a JSON object of ${ENTRY_TYPES[kind] ?? 'string'}s, or a JSON array of strings`,
  )
}

/** The values of entries that are not strings. */
const ENTRY_TYPES: Partial<Record<EntryKind, 'number' | 'object'>> = {
  numbers: 'number',
  keys: 'object',
  registries: 'object',
}

function parseJsonFlag(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the caller reports the expected form
  }
}

const UNITS: Readonly<Record<string, number>> = {
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
}

/**
 * Parses a size such as `512`, `64KiB` or `10MB`.
 *
 * @returns bytes, or undefined if it is not a size.
 */
export function parseSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim())
  const unit = UNITS[match?.[2]?.toLowerCase() || 'b']
  const bytes = Number(match?.[1]) * (unit ?? Number.NaN)
  return Number.isSafeInteger(bytes) ? bytes : undefined
}
