import { randomUUID } from 'node:crypto'
import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import {
  InputUnreadableError,
  NamespaceNotRenamedError,
  OutputUnwritableError,
  StoreDamagedError,
  StoreNotEmptyError,
  UsageError,
} from '../../errors/errors.ts'
import { nameOfStore, openStore } from '../../guest/store/open-store.ts'
import type { Store } from '../../guest/store/store.ts'
import { errorCode, fileProblem } from '../../platform/system-errors.ts'
import { didYouMean, printable, renderTable } from '../../platform/text.ts'
import { type Command, type Host, type OwnValues, renderPage, takeOwnFlags } from '../command.ts'
import { parseExport, renderEntry, renderFirstLine, renderLastLine } from './export-format.ts'

/** Flags of this command only. */
export const STORE_FLAGS = {
  file: { kind: 'text', placeholder: 'path', description: 'The file to export to or import from.' },
  replace: { kind: 'switch', description: 'Import: empty the store first. Rename: overwrite keys of NEW.' },
  json: { kind: 'switch', description: 'Check: print JSON.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage:
    'wasm-serve store check|export|import [lmdb:FOLDER | redis://HOST] [flags]\n  wasm-serve store rename OLD NEW [lmdb:FOLDER | redis://HOST] [flags]',
  about:
    'Inspects or moves the data that guests store. check reads and counts entries,\nexport prints them as JSON lines, import loads such lines into an empty store.\nrename moves the keys of namespace OLD to NEW atomically. NEW must be empty,\nunless --replace is set: then keys of OLD overwrite the same keys of NEW.\nDefault store: the one in WASM_SERVE_STORE.',
  examples: [
    'wasm-serve store check lmdb:./state',
    'wasm-serve store export lmdb:./state --file state.jsonl',
    'wasm-serve store import lmdb:./copy --file state.jsonl',
    'wasm-serve store export lmdb:./state | wasm-serve store import lmdb:./other',
  ],
  flags: STORE_FLAGS,
  more: 'Exits with 1 if the store is damaged or cannot be read or written.',
})

interface StoreTask {
  /** The arguments before the store. */
  readonly words: readonly string[]
  readonly url: string
  /** The URL without secrets. */
  readonly name: string
  readonly values: OwnValues<typeof STORE_FLAGS>
  readonly host: Host
}

interface Action {
  run(work: StoreTask): Promise<void>
  readonly flags: readonly string[]
  /** Arguments before the store. */
  readonly words: readonly string[]
}

const ACTIONS: Readonly<Record<string, Action>> = {
  check: { run: checkStore, flags: ['json'], words: [] },
  export: { run: exportStore, flags: ['file'], words: [] },
  import: { run: importStore, flags: ['file', 'replace'], words: [] },
  rename: { run: renameNamespace, flags: ['replace'], words: ['OLD', 'NEW'] },
}

/** The arguments after `store`. */
export const STORE_ACTIONS: readonly string[] = Object.keys(ACTIONS)

/** Checks, exports and imports a store, without a server. */
export const storeCommand: Command = {
  async run(argv, host) {
    const { values, rest } = takeOwnFlags(argv, STORE_FLAGS)
    if (values.help) return host.out.write(HELP)
    const flag = rest.find((word) => word.startsWith('-'))
    if (flag !== undefined) throw new UsageError(`${flag}: not supported by store, which does not serve`)
    const [word, ...more] = rest
    const action = word !== undefined && Object.hasOwn(ACTIONS, word) ? ACTIONS[word] : undefined
    if (word === undefined) throw new UsageError(`store: name an action, ${STORE_ACTIONS.join(', ')}`)
    if (!action) {
      throw new UsageError(
        `store: unknown action "${word}": use one of ${STORE_ACTIONS.join(', ')}${didYouMean(word, STORE_ACTIONS)}`,
      )
    }
    for (const name of ['file', 'replace', 'json'] as const) {
      if (values[name] !== undefined && values[name] !== false && !action.flags.includes(name))
        throw new UsageError(`--${name}: not supported by store ${word}`)
    }
    const words = more.slice(0, action.words.length)
    const [url = host.environment.WASM_SERVE_STORE || undefined, tooMany] = more.slice(words.length)
    const usage = ['wasm-serve store', word, ...action.words].join(' ')
    if (words.length < action.words.length)
      throw new UsageError(`store ${word}: name the namespaces first: ${usage} lmdb:./state`)
    if (url === undefined) throw new UsageError(`name a store, such as ${usage} lmdb:./state`)
    if (tooMany !== undefined) throw new UsageError(`store ${word}: one store at a time, not also ${tooMany}`)
    if (/^memory:/.test(url))
      throw new UsageError(
        `store ${word}: a memory: store exists in one process only; use lmdb:FOLDER or redis://HOST`,
      )
    await action.run({ words, url, name: nameOfStore(url), values, host })
  },
}

/** A value of a megabyte may take a while to transfer. */
const OPERATION_MS = 10_000

/** @param mustExist - The store is not created, and is validated before use. */
async function withStore<Result>(
  url: string,
  mustExist: boolean,
  use: (store: Store) => Promise<Result>,
): Promise<Result> {
  const settings = { maxBytes: 0, timeoutMs: OPERATION_MS, mustExist, isReadWholly: mustExist }
  const store = await openStore(url, settings)
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}

interface RecordCounts {
  entries: number
  expiring: number
  keyBytes: number
  valueBytes: number
}

async function checkStore({ url, name, values, host }: StoreTask): Promise<void> {
  const namespaces = new Map<string, RecordCounts>()
  const faults: string[] = []
  await withStore(url, true, async (store) => {
    for await (const entry of store.entries()) {
      if ('fault' in entry) {
        faults.push(entry.fault)
        continue
      }
      const counts = namespaces.get(entry.namespace) ?? {
        entries: 0,
        expiring: 0,
        keyBytes: 0,
        valueBytes: 0,
      }
      counts.entries++
      if (entry.expiresAt !== undefined) counts.expiring++
      counts.keyBytes += Buffer.byteLength(entry.key)
      counts.valueBytes += entry.value.length
      namespaces.set(entry.namespace, counts)
    }
  })
  const found = [...namespaces].map(([namespace, counts]) => ({ namespace, ...counts }))
  const result = { store: name, namespaces: found, faults }
  host.out.write(values.json ? `${JSON.stringify(result, null, 2)}\n` : renderCheck(found))
  refuseFaults(name, faults)
}

function renderCheck(namespaces: readonly ({ readonly namespace: string } & RecordCounts)[]): string {
  const sum = (field: keyof RecordCounts) => namespaces.reduce((total, counts) => total + counts[field], 0)
  const row = (name: string, of: (field: keyof RecordCounts) => number) => {
    return [
      name,
      ...(['entries', 'expiring', 'keyBytes', 'valueBytes'] as const).map((field) => String(of(field))),
    ]
  }
  const rows = namespaces.map((counts) => row(printable(counts.namespace), (field) => counts[field]))
  const head = ['NAMESPACE', 'ENTRIES', 'EXPIRING', 'KEY BYTES', 'VALUE BYTES']
  return `${renderTable([head, ...rows, row('all', sum)]).join('\n')}\n`
}

/** The maximum number of faults in a message; the others are counted. */
const MAX_SHOWN_FAULTS = 20

/** @throws {@link StoreDamagedError} */
function refuseFaults(name: string, faults: readonly string[]): void {
  if (faults.length === 0) return
  const more = faults.length > MAX_SHOWN_FAULTS ? [`and ${faults.length - MAX_SHOWN_FAULTS} more`] : []
  throw new StoreDamagedError(name, [...faults.slice(0, MAX_SHOWN_FAULTS), ...more].join('\n'))
}

/** @throws {@link NamespaceNotRenamedError} */
async function renameNamespace({
  words: [from = '', to = ''],
  url,
  name,
  values,
  host,
}: StoreTask): Promise<void> {
  if (from === to) throw new UsageError('store rename: the namespaces are equal')
  const moved = await withStore(url, true, (store) => store.rename(from, to, values.replace))
  if (moved === undefined)
    throw new NamespaceNotRenamedError(
      from,
      name,
      `namespace "${to}" has keys: --replace moves anyway, and replaces keys that both have`,
    )
  if (moved === 0) throw new NamespaceNotRenamedError(from, name, 'it has no keys')
  host.out.write(`moved ${moved} entries from ${printable(from)} to ${printable(to)}\n`)
}

async function exportStore({ url, name, values, host }: StoreTask): Promise<void> {
  const faults: string[] = []
  let count = 0
  await withStore(url, true, (store) =>
    writeOutput(values.file, host, async (write) => {
      write(renderFirstLine())
      for await (const entry of store.entries()) {
        if ('fault' in entry) {
          faults.push(entry.fault)
          continue
        }
        write(renderEntry(entry))
        count++
      }
      write(renderLastLine(count))
    }),
  )
  if (values.file !== undefined) host.out.write(`exported ${count} entries to ${printable(values.file)}\n`)
  refuseFaults(name, faults)
}

/** Writes a file atomically, or to standard output. */
async function writeOutput(
  path: string | undefined,
  host: Host,
  work: (write: (text: string) => void) => Promise<void>,
): Promise<void> {
  if (path === undefined) return work((text) => host.out.write(text))
  const begun = join(dirname(path), `.${randomUUID()}.part`)
  try {
    // Readable by its owner only: it holds all data of the guests.
    const file = openSync(begun, 'wx', 0o600)
    try {
      await work((text) => writeAll(file, Buffer.from(text)))
      flush(file)
    } finally {
      closeSync(file)
    }
    renameSync(begun, path)
  } catch (error) {
    const isOfFile = error instanceof Error && 'syscall' in error
    throw isOfFile ? new OutputUnwritableError(path, error.message, { cause: error }) : error
  } finally {
    rmSync(begun, { force: true })
  }
}

/** Node's permission model refuses to flush the file; then the operating system writes it in its own time. */
function flush(file: number): void {
  try {
    fsyncSync(file)
  } catch (error) {
    if (errorCode(error) !== 'ERR_ACCESS_DENIED') throw error
  }
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length; ) written += writeSync(file, bytes, written)
}

async function importStore({ url, name, values, host }: StoreTask): Promise<void> {
  const read = await openInput(values.file, host)
  // Validate the whole input before the first write.
  let count = 0
  for (const _entry of parseExport(read.name, read.chunks())) count++
  const written = await withStore(url, false, (store) =>
    store.restore(parseExport(read.name, read.chunks()), values.replace),
  )
  if (written === undefined) throw new StoreNotEmptyError(name)
  const expired = count > written ? ` (${count - written} had expired)` : ''
  host.out.write(`imported ${written} entries into ${printable(name)}${expired}\n`)
}

interface Input {
  readonly name: string
  /** An input that can be read repeatedly. */
  chunks(): Iterable<Uint8Array>
}

async function openInput(path: string | undefined, host: Host): Promise<Input> {
  if (path === undefined) {
    const bytes = await host.readInput()
    return { name: 'standard input', chunks: () => [bytes] }
  }
  return orUnreadable(path, () => {
    if (statSync(path).isFile()) return { name: path, chunks: () => readChunks(path) }
    const bytes = readFileSync(path) // a pipe can be read only once
    return { name: path, chunks: () => [bytes] }
  })
}

const CHUNK_BYTES = 1_048_576

function* readChunks(path: string): Generator<Uint8Array> {
  const file = orUnreadable(path, () => openSync(path, 'r'))
  try {
    const bytes = Buffer.alloc(CHUNK_BYTES)
    for (;;) {
      const length = orUnreadable(path, () => readSync(file, bytes))
      if (length === 0) return
      yield bytes.subarray(0, length)
    }
  } finally {
    closeSync(file)
  }
}

function orUnreadable<Value>(path: string, work: () => Value): Value {
  try {
    return work()
  } catch (error) {
    throw new InputUnreadableError(path, fileProblem(error), { cause: error })
  }
}
