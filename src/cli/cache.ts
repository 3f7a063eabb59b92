import { resolve } from 'node:path'
import { CacheDamagedError, UsageError } from '../errors/errors.ts'
import { parseSize, parseTime } from '../options/flags.ts'
import { defaultCacheFolder } from '../platform/cache-folder.ts'
import { didYouMean, printable, renderTable } from '../platform/text.ts'
import { type CacheFile, listCache, pruneCache, verifyCache } from '../plugin/cache-files.ts'
import { type Command, type Host, type OwnValues, renderPage, takeOwnFlags } from './command.ts'

/** Flags of this command only. */
export const CACHE_FLAGS = {
  'older-than': {
    kind: 'text',
    placeholder: 'time',
    description: 'Prune: remove what was not used for so long, such as 12h or 30d.',
  },
  'max-size': {
    kind: 'text',
    placeholder: 'size',
    description: 'Prune: remove the least recently used beyond this size, such as 1GiB.',
  },
  all: { kind: 'switch', description: 'Prune: remove everything.' },
  'cache-folder': {
    kind: 'text',
    placeholder: 'path',
    description: 'The folder. Default: ~/.cache/wasm-serve.',
  },
  json: { kind: 'switch', description: 'Print JSON.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve cache list|verify|prune [flags]',
  about:
    'Shows, checks or empties the cache of downloads, checked modules and bytecode.\nWithout a flag, prune removes only what crashed processes left.',
  examples: [
    'wasm-serve cache list',
    'wasm-serve cache verify --json',
    'wasm-serve cache prune --older-than 30d --max-size 1GiB',
  ],
  flags: CACHE_FLAGS,
  more: 'Servers may keep running. verify removes damaged files and then exits with 1.',
})

interface CacheTask {
  readonly folder: string
  readonly files: readonly CacheFile[]
  readonly values: OwnValues<typeof CACHE_FLAGS>
  readonly host: Host
}

const ACTIONS: Readonly<Record<string, (work: CacheTask) => Promise<void>>> = {
  list: listFiles,
  verify: verifyFiles,
  prune: pruneFiles,
}

/** The arguments after `cache`. */
export const CACHE_ACTIONS: readonly string[] = Object.keys(ACTIONS)

/** Lists, verifies and prunes the cache folder. */
export const cacheCommand: Command = {
  async run(argv, host) {
    const { values, rest } = takeOwnFlags(argv, CACHE_FLAGS)
    if (values.help) return host.out.write(HELP)
    const flag = rest.find((word) => word.startsWith('-'))
    if (flag !== undefined) throw new UsageError(`${flag}: not supported by cache, which does not serve`)
    const [word, tooMany] = rest
    const run = word !== undefined && Object.hasOwn(ACTIONS, word) ? ACTIONS[word] : undefined
    if (word === undefined) throw new UsageError(`cache: name an action, ${CACHE_ACTIONS.join(', ')}`)
    if (!run)
      throw new UsageError(
        `cache: unknown action "${word}": use one of ${CACHE_ACTIONS.join(', ')}${didYouMean(word, CACHE_ACTIONS)}`,
      )
    if (tooMany !== undefined) throw new UsageError(`cache ${word}: unexpected argument "${tooMany}"`)
    for (const name of ['older-than', 'max-size', 'all'] as const) {
      if (word !== 'prune' && values[name] !== undefined && values[name] !== false)
        throw new UsageError(`--${name}: only for cache prune`)
    }
    const { WASM_SERVE_CACHE_FOLDER: configured } = host.environment
    const folder = resolve(values['cache-folder'] ?? (configured || defaultCacheFolder(host.environment)))
    await run({ folder, files: await listCache(folder), values, host })
  },
}

async function listFiles({ folder, files, values, host }: CacheTask): Promise<void> {
  if (values.json) return printJson(host, { folder, ...summaryOf(files), files: files.map(toJson) })
  host.out.write(
    `${printable(folder)}\n${renderTable([HEAD, ...rowsOf(files), totalOf(files)]).join('\n')}\n`,
  )
}

const HEAD = ['KIND', 'NAME', 'BYTES', 'LAST USED']

/** Kinds of which there are many, with names that mean nothing to users. */
const COUNTED: readonly CacheFile['kind'][] = ['module', 'bytecode']

function rowsOf(files: readonly CacheFile[]): string[][] {
  const named = files.filter(({ kind }) => !COUNTED.includes(kind))
  const rows = named.map((file) => [
    file.kind,
    printable(file.digest === undefined ? file.name : `${file.name} (sha256:${file.digest.slice(0, 12)})`),
    String(file.bytes),
    renderTime(file.usedAt),
  ])
  const counted = COUNTED.flatMap((kind) => {
    const those = files.filter((file) => file.kind === kind)
    return those.length === 0 ? [] : [[kind, ...totalOf(those).slice(1)]]
  })
  return [...rows, ...counted]
}

function totalOf(files: readonly CacheFile[]): string[] {
  const last = files.reduce((latest, { usedAt }) => Math.max(latest, usedAt), 0)
  const { count, bytes } = summaryOf(files)
  return ['all', `${count} files`, String(bytes), count === 0 ? '' : renderTime(last)]
}

function summaryOf(files: readonly CacheFile[]): { readonly count: number; readonly bytes: number } {
  return { count: files.length, bytes: files.reduce((sum, file) => sum + file.bytes, 0) }
}

function renderTime(time: number): string {
  return new Date(time).toISOString().slice(0, 16).replace('T', ' ')
}

function toJson({ kind, name, digest, path, bytes, usedAt }: CacheFile): object {
  return { kind, name, digest, path, bytes, usedAt: new Date(usedAt).toISOString() }
}

function printJson(host: Host, result: object): void {
  host.out.write(`${JSON.stringify(result, null, 2)}\n`)
}

/** Limit of names in a message; the others are counted. */
const MAX_SHOWN = 20

async function verifyFiles({ folder, files, values, host }: CacheTask): Promise<void> {
  const damaged = await verifyCache(files)
  if (values.json) printJson(host, { folder, ...summaryOf(files), damaged: damaged.map(toJson) })
  else host.out.write(`verified ${files.length} files in ${printable(folder)}\n`)
  if (damaged.length === 0) return
  const more = damaged.length > MAX_SHOWN ? [`and ${damaged.length - MAX_SHOWN} more`] : []
  throw new CacheDamagedError(
    folder,
    [...damaged.slice(0, MAX_SHOWN).map(({ path }) => `  ${path}`), ...more].join('\n'),
  )
}

async function pruneFiles({ folder, files, values, host }: CacheTask): Promise<void> {
  const { 'older-than': time, 'max-size': size, all } = values
  if (all && (time !== undefined || size !== undefined))
    throw new UsageError('--all: excludes --older-than and --max-size')
  const olderThanMs = time === undefined ? undefined : parseAge(time)
  const maxBytes = size === undefined ? undefined : parseSize(size)
  if (size !== undefined && maxBytes === undefined)
    throw new UsageError(`--max-size: must be a size such as 500MB or 1GiB, not "${size}"`)
  const removed = await pruneCache(
    files,
    all ? { olderThanMs: Number.NEGATIVE_INFINITY } : { olderThanMs, maxBytes },
  )
  const { count, bytes } = summaryOf(removed)
  if (values.json) printJson(host, { folder, count, bytes, removed: removed.map(toJson) })
  else host.out.write(`removed ${count} files (${bytes} bytes) from ${printable(folder)}\n`)
}

/** Parses an age, which needs a unit: a number without one would be milliseconds. */
function parseAge(text: string): number {
  const ms = /^\d/.test(text) && /[a-z]$/i.test(text) ? parseTime(text) : undefined
  if (ms === undefined)
    throw new UsageError(`--older-than: must be a number with s, m, h or d, such as 30d, not "${text}"`)
  return ms
}
