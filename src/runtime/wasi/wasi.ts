import { randomFillSync } from 'node:crypto'
import { FD_FOLDER } from '../../platform/descriptors.ts'
import type { AllowedPath } from '../../plugin/source/manifest.ts'
import { type Descriptor, DescriptorTable } from './descriptor.ts'
import { Directory } from './directory.ts'
import { errno, wasiFunction } from './errno.ts'
import { openFdFunctions, openFolderFunctions } from './file-functions.ts'
import { Folder } from './folder.ts'
import { GuestMemory, type OnAccess } from './guest-memory.ts'
import { openClocks, openPoll } from './poll.ts'
import { EmptyInput, LineBuffer, LineOutput } from './streams.ts'

export { ProgramStreams } from './streams.ts'

/** The WASI resources of a guest. It has no others. */
export interface WasiOptions {
  /** Program arguments; the first is its name. Default: one name, because C programs expect it. */
  readonly args?: readonly string[]
  /** Environment variables: only these. */
  readonly env?: Readonly<Record<string, string>>
  /**
   * Folders of the host by the guest's names (`/data`). No link in them leads out. In a `readOnly` folder all modifications
   * fail with `EROFS`. Default: none, so there is no file system.
   */
  readonly allowedPaths?: readonly AllowedPath[]
  /** Standard input and output of a program. Default: empty input, and output as lines. */
  readonly streams?: StandardStreams | undefined
  /** Whether a guest that sleeps has to end. Default: whether the run of the thread was interrupted. */
  readonly isInterrupted?: (() => boolean) | undefined
  readonly onAccess?: OnAccess | undefined
  /** Receives standard output and error of the guest, in lines of at most 64 KiB. */
  writeLine(stream: 'stdout' | 'stderr', line: string): void
}

/** The descriptors 0, 1 and 2 of a guest. */
export interface StandardStreams {
  readonly input: Descriptor
  readonly output: Descriptor
  /** Lines by default. */
  readonly error?: Descriptor
}

/** WASI preview 1 for one instance. */
export interface Wasi {
  /** All functions of `wasi_snapshot_preview1`. None throws, except `proc_exit` a {@link ProcExit}. */
  readonly imports: WasiFunctions

  /** Returns a function. Its group is created on first use: few guests need them all. */
  function(name: string): WebAssembly.ImportValue | undefined

  /** Sets the guest's memory. Until then every pointer is `EFAULT`, even in a start function. */
  attach(memory: WebAssembly.Memory): void

  /** Writes incomplete lines. Call it after each call, or they mix with the next call's. */
  flush(): void

  /** Flushes, and closes all descriptors of the guest. */
  close(): void

  /** Reopens it after {@link close}. @throws like {@link openWasi}. */
  reopen(): void
}

/**
 * Opens wasm-serve's implementation of WASI preview 1: `node:wasi` is not a sandbox and cannot be interrupted.
 *
 * Only `poll_oneoff` waits, for a clock (apart from disk access): it blocks its thread until then, or until the thread is
 * terminated.
 *
 * @param fdFolder - The folder in which the host lists open descriptors; tests pass one that does not exist.
 * @throws a file system error, if an allowed path is not a readable folder.
 */
export function openWasi(options: WasiOptions, fdFolder = FD_FOLDER): Wasi {
  const memory = new GuestMemory(options.onAccess)
  const table = new DescriptorTable()
  const stdout = new LineBuffer((line) => options.writeLine('stdout', line))
  const stderr = new LineBuffer((line) => options.writeLine('stderr', line))
  fillTable()

  function fillTable(): void {
    table.add(options.streams?.input ?? new EmptyInput())
    table.add(options.streams?.output ?? new LineOutput(stdout))
    table.add(options.streams?.error ?? new LineOutput(stderr))
    addFolders(table, options.allowedPaths ?? [], fdFolder)
  }
  function flush(): void {
    stdout.flush()
    stderr.flush()
  }
  const groups: GroupOfFunctions[] = []
  function group(index: number): GroupOfFunctions {
    groups[index] ??= FUNCTION_GROUPS[index]?.(memory, table, options) ?? {}
    return groups[index]
  }
  return {
    get imports() {
      return Object.assign({}, ...FUNCTION_GROUPS.map((_open, index) => group(index))) as WasiFunctions
    },
    function: (name) => group(GROUP_BY_FUNCTION.get(name) ?? -1)[name],
    attach: (guestMemory) => memory.attach(guestMemory),
    flush,
    close() {
      table.closeAll()
      flush()
    },
    reopen: fillTable,
  }
}

/** Whether WASI has a function of this name. */
export function isWasiFunction(name: string): boolean {
  return GROUP_BY_FUNCTION.has(name)
}

/** The guest called `proc_exit`. Code 0 from a command's `_start` is its normal end. */
export class ProcExit extends Error {
  override readonly name = 'ProcExit'
  readonly code: number

  constructor(code: number) {
    super(`the guest exited with status ${code}`)
    this.code = code
  }
}

type WasiFunctions = ReturnType<typeof openFdFunctions> &
  ReturnType<typeof openFolderFunctions> &
  ReturnType<typeof openPoll> &
  ReturnType<typeof openStrings> &
  ReturnType<typeof openClocks> &
  ReturnType<typeof openRandom> &
  typeof processFunctions &
  typeof socketFunctions

type GroupOfFunctions = Readonly<Record<string, WebAssembly.ImportValue>>

const NO_ARGS = ['plugin']
const NO_ENV = {}

/** `proc_*` and `sched_yield`: there are no signals and no other threads. */
const processFunctions = {
  proc_exit(code: number): never {
    throw new ProcExit(code >>> 0)
  },
  proc_raise: (_signal: number): number => errno('ENOSYS'),
  sched_yield: (): number => 0,
}

const NOT_SUPPORTED = errno('ENOTSUP')

/** `sock_*`: guests have no sockets; for HTTP, Extism has `http_request`. */
const socketFunctions = {
  sock_accept: (_fd: number, _flags: number, _result: number): number => NOT_SUPPORTED,
  sock_recv: (
    _fd: number,
    _list: number,
    _count: number,
    _flags: number,
    _size: number,
    _outFlags: number,
  ): number => NOT_SUPPORTED,
  sock_send: (_fd: number, _list: number, _count: number, _flags: number, _size: number): number =>
    NOT_SUPPORTED,
  sock_shutdown: (_fd: number, _how: number): number => NOT_SUPPORTED,
}

/** `args_*` and `environ_*`: two lists of strings that never change. */
function openStrings(memory: GuestMemory, args: readonly string[], env: Readonly<Record<string, string>>) {
  const [args_sizes_get, args_get] = listFunctions(memory, encodeOnce(args, args))
  const [environ_sizes_get, environ_get] = listFunctions(memory, encodeOnce(env, environmentEntries(env)))
  return { args_sizes_get, args_get, environ_sizes_get, environ_get }
}

interface EncodedList {
  readonly strings: readonly Uint8Array[]
  readonly bytes: Uint8Array
}

/** Cache of encoded lists. The instances of a route share them: encoding costs more than opening WASI. */
const encodedLists = new WeakMap<object, EncodedList>()

function encodeOnce(source: object, list: Iterable<string>): EncodedList {
  const found = encodedLists.get(source)
  if (found) return found
  const strings = Array.from(list, (text) => Buffer.from(`${text}\0`))
  const encoded = { strings, bytes: Buffer.concat(strings) }
  encodedLists.set(source, encoded)
  return encoded
}

function* environmentEntries(env: Readonly<Record<string, string>>): Iterable<string> {
  for (const [name, value] of Object.entries(env)) yield `${name}=${value}`
}

function listFunctions(memory: GuestMemory, { strings, bytes }: EncodedList) {
  const sizes = wasiFunction((countPointer: number, sizePointer: number) => {
    memory.setU32(countPointer, strings.length)
    memory.setU32(sizePointer, bytes.length)
  })
  const get = wasiFunction((pointers: number, target: number) => {
    const list = memory.locate(pointers, strings.length * 4)
    let start = memory.locate(target, bytes.length)
    memory.bytes.set(bytes, start)
    for (const [index, { length }] of strings.entries()) {
      memory.view.setUint32(list + index * 4, start, true)
      start += length
    }
  })
  return [sizes, get] as const
}

const FUNCTION_GROUPS: readonly ((
  memory: GuestMemory,
  table: DescriptorTable,
  options: WasiOptions,
) => GroupOfFunctions)[] = [
  openFdFunctions,
  openFolderFunctions,
  openPoll,
  (memory, _table, { args = NO_ARGS, env = NO_ENV }) => openStrings(memory, args, env),
  openClocks,
  openRandom,
  () => processFunctions,
  () => socketFunctions,
]

/** The place in `FUNCTION_GROUPS` of each function. */
const GROUP_BY_FUNCTION: ReadonlyMap<string, number> = new Map(
  FUNCTION_GROUPS.flatMap((open, index) => {
    const functions = open(new GuestMemory(), new DescriptorTable(), { writeLine: () => undefined })
    return Object.keys(functions).map((name) => [name, index] as const)
  }),
)

/** Folders get the numbers from 3 on, where libcs expect them. */
function addFolders(table: DescriptorTable, paths: readonly AllowedPath[], fdFolder: string): void {
  try {
    for (const { guest, host, readOnly } of paths) {
      table.checkRoom()
      table.add(new Folder(Directory.open(host, fdFolder), readOnly, guest))
    }
  } catch (error) {
    table.closeAll()
    throw error
  }
}

/** Chunk size. Between two chunks, `terminate()` can stop the thread. */
const RANDOM_CHUNK_BYTES = 65_536

/** Size of the random pool: a few bytes cost nearly as much as this many. */
const POOL_SIZE = 1_024

const pool = Buffer.alloc(POOL_SIZE)
let used = POOL_SIZE

/** `random_get`: cryptographically secure bytes. All guests draw from one pool, each byte once. */
function openRandom(memory: GuestMemory) {
  return {
    random_get: wasiFunction((pointer: number, size: number) => {
      const length = size >>> 0
      const start = memory.locate(pointer, length)
      if (length <= POOL_SIZE / 8) {
        fillFromPool(memory, start, length)
        return
      }
      for (let done = 0; done < length; done += RANDOM_CHUNK_BYTES) {
        randomFillSync(memory.bytes, start + done, Math.min(RANDOM_CHUNK_BYTES, length - done))
      }
    }),
  }
}

function fillFromPool(memory: GuestMemory, start: number, length: number): void {
  if (used + length > POOL_SIZE) {
    randomFillSync(pool)
    used = 0
  }
  memory.bytes.set(pool.subarray(used, used + length), start)
  pool.fill(0, used, used + length) // used bytes must not be readable later
  used += length
}
