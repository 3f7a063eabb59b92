import { UsageError } from '../errors/errors.ts'
import { PAGE_BYTES } from '../platform/guest-limits.ts'
import { parseLink } from '../plugin/source/url.ts'
import type { OptionScope } from './facts.ts'
import { loadSchema, routeSchema, serverSchema } from './options-schema.ts'
import type { EntryKind } from './schema/facts.ts'
import { type Schema, schemasOf } from './schema.ts'

/** A flag of the command line. Its name, kind and description come from the option's schema. */
export interface Flag {
  /** The name after `--`. */
  readonly name: string
  /** The environment variable for the same option. */
  readonly variable: string
  /** The option's name; a part of an option has a dot: `tls.cert`. */
  readonly option: string
  readonly scope: OptionScope
  readonly kind: FlagKind | EntryKind | 'hosts'
  readonly description: string
  /** The allowed values; undefined: any. */
  readonly values: readonly string[]
  readonly default: unknown
  /** Whether its value is, or ends in, a path. */
  readonly isPath: boolean
}

/** Flags that are given once; `hosts` may be repeated, each use adds one. */
export type FlagKind = 'boolean' | 'integer' | 'size' | 'pages' | 'time' | 'threads' | 'string' | 'list'

/** Options, and the parts of those that have a flag for each part. */
const options = [
  ...optionsOf('route', routeSchema),
  ...optionsOf('load', loadSchema),
  ...optionsOf('server', serverSchema),
]

export const flags: readonly Flag[] = options.filter(({ schema }) => hasFlag(schema)).map(flagOf)

/** Variables of the environment: one for each flag, and those without a flag. */
export const variables: readonly Flag[] = [
  ...flags,
  ...options.filter(({ schema: { facts } }) => facts?.variable).map(flagOf),
]

/** Options that only a config file can set, keyed by their would-be flag names. */
export const fileOptions: ReadonlyMap<string, string> = new Map(
  options
    .filter(({ schema }) => !hasFlag(schema) && !schema.callHook)
    .map(({ option, schema }) => [nameOf(option, schema), option]),
)

/** The name of the flag of an option. */
export function flagName(scope: OptionScope, option: string): string | undefined {
  return flags.find((flag) => flag.scope === scope && flag.option === option)?.name
}

interface Option {
  readonly scope: OptionScope
  /** The option's name; a part has a dot. */
  readonly option: string
  readonly schema: Schema
}

function optionsOf(scope: OptionScope, schema: { readonly properties: object }): Option[] {
  return Object.entries(schemasOf(schema)).flatMap(([option, schema]) => {
    if (!schema.properties || schema.facts?.entries || !hasFlag(schema)) return [{ scope, option, schema }]
    const parts = Object.entries(schema.properties)
    return parts.map(([part, schema]) => ({ scope, option: `${option}.${part}`, schema }))
  })
}

function hasFlag({ facts }: Schema): boolean {
  return facts?.flag !== false
}

function flagOf({ scope, option, schema }: Option): Flag {
  const name = nameOf(option, schema)
  const variable = `WASM_SERVE_${name.replaceAll('-', '_').toUpperCase()}`
  const { description = '', default: value, nameOrContract = [], enum: values = nameOrContract } = schema
  return {
    ...{ name, variable, option, scope, kind: kindOf(schema), description },
    ...{ values: values.map(String), default: value, isPath: isPath(schema) },
  }
}

/** `bodyLimit` is `body-limit`, and `tls.cert` is `tls-cert`. */
function nameOf(option: string, { facts }: Schema): string {
  const written = option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replaceAll('.', '-')
  return facts?.flag || written
}

function isPath({ hostFunctions, holds, patternProperties = {} }: Schema): boolean {
  const isOne = hostFunctions || holds === 'path' || holds === 'source' || holds === 'folders'
  return isOne || Object.values(patternProperties).some(isPath)
}

/** The kind of an option's text: in a flag, a variable, or a config file's `${NAME}`. */
export function kindOf({ type, anyOf, threadCount, unit, facts }: Schema): Flag['kind'] {
  if (threadCount) return 'threads'
  if (anyOf) return anyOf.some((each) => each.enum) ? 'list' : 'hosts'
  if (type === 'boolean') return 'boolean'
  if (type === 'object') return facts?.entries ?? 'pairs'
  if (type === 'array') return 'hosts'
  if (unit === 'pages') return 'pages'
  if (type !== 'integer') return 'string'
  if (unit === 'ms') return 'time'
  return unit === 'bytes' ? 'size' : 'integer'
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
    case 'time': {
      const ms = parseTime(text)
      if (ms !== undefined) return ms
      throw new UsageError(`${where}: must be a number of milliseconds, or a time such as 5s, not "${shown}"`)
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
  return Object.hasOwn(ENTRY_PARSERS, kind)
}

/**
 * Parses one use of a repeatable flag.
 *
 * @throws {@link UsageError} if it is not of the flag's kind.
 */
export function parseFlagEntry(kind: EntryKind, text: string, where: string): FlagEntry {
  return ENTRY_PARSERS[kind](text, where)
}

const ENTRY_PARSERS: Readonly<Record<EntryKind, (text: string, where: string) => FlagEntry>> = {
  pairs: parsePair,
  paths: parsePath,
  links: parseNamedSource,
  numbers: parseNumber,
  keys: parseTrust,
  registries: parseRegistry,
}

function parseNamedSource(text: string, where: string): FlagEntry {
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
  if (at < 1) {
    const file = /\.(?:ya?ml|json)$/i.test(text) ? `; a config file is named by -c ${text}` : ''
    throw new UsageError(`${where}: must be KEY=VALUE, not "${text}"${file}`)
  }
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
  tb: 1e12,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
}

const TIME_UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/**
 * Parses a time such as `500`, `500ms`, `1.5s` or `2m`.
 *
 * @returns milliseconds, or undefined if it is not a time.
 */
export function parseTime(text: string): number | undefined {
  const match = /^(-?\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim())
  const unit = TIME_UNITS[match?.[2]?.toLowerCase() || 'ms']
  const ms = Number(match?.[1]) * (unit ?? Number.NaN)
  return Number.isSafeInteger(ms) ? ms : undefined
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
