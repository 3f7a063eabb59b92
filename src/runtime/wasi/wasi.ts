import { openClocks } from './clocks.ts'
import { DescriptorTable } from './descriptor-table.ts'
import { Directory, FD_FOLDER } from './directory.ts'
import { openFdFunctions } from './fd-functions.ts'
import { Folder } from './folder.ts'
import { openFolderFunctions } from './folder-functions.ts'
import { GuestMemory } from './guest-memory.ts'
import { LineBuffer } from './line-buffer.ts'
import { openPoll } from './poll.ts'
import { processFunctions } from './process.ts'
import type { ProgramStreams } from './program-streams.ts'
import { openRandom } from './random.ts'
import { socketFunctions } from './sockets.ts'
import { EmptyInput, LineOutput } from './standard-streams.ts'
import { openStrings } from './strings.ts'

export { ProcExit } from './process.ts'
export { ProgramStreams } from './program-streams.ts'

/** What a guest gets of WASI. What is not named here, it does not get. */
export interface WasiOptions {
  /** Arguments of the program; the first is its name. One name by default, as C programs count on it. */
  readonly args?: readonly string[]
  /** Environment variables: none but these. */
  readonly env?: Readonly<Record<string, string>>
  /** Folders; none by default, and then there is no file system. */
  readonly allowedPaths?: readonly AllowedPath[]
  /** Standard input and output, of a program; by default the input is empty, and the output becomes lines. */
  readonly streams?: ProgramStreams | undefined
  /** Takes what the guest writes to its standard output and error, line by line (of at most 64 KiB). */
  writeLine(stream: 'stdout' | 'stderr', line: string): void
}

/** A folder of the host that a guest may use. Nothing in it leads out, whoever made the link. */
export interface AllowedPath {
  /** What the guest calls it, such as `/data`. */
  readonly guest: string
  /** Where it is. */
  readonly host: string
  /** Whether all that would change something fails with `EROFS`. */
  readonly readOnly: boolean
}

/** WASI preview 1 for one instance. */
export interface Wasi {
  /** All functions of `wasi_snapshot_preview1`. None throws, except `proc_exit` a {@link ProcExit}. */
  readonly imports: WasiFunctions

  /** One of them. It is made, with others of its kind, when it is first asked for: few guests need them all. */
  function(name: string): WebAssembly.ImportValue | undefined

  /** Tells where the guest's memory is. Until then, every pointer is `EFAULT`: what a start function may find. */
  attach(memory: WebAssembly.Memory): void

  /** Writes lines that the guest has not finished. Call it after each call, or they mix with the next call's. */
  flush(): void

  /** Flushes, and closes what the guest has open. */
  close(): void

  /** After {@link close}: as if it were opened now. @throws as {@link openWasi} does. */
  reopen(): void
}

/**
 * Opens WASI preview 1 as a shim of our own: `node:wasi` is no sandbox and cannot be stopped.
 *
 * Nothing in it waits, except `poll_oneoff` for a clock (and a disk for its data): it blocks its thread until then,
 * or until somebody terminates the thread.
 *
 * @param fdFolder - Where the host shows open descriptors; tests name a folder that does not exist.
 * @throws an error of the file system, if an allowed path is not a folder that can be read.
 */
export function openWasi(options: WasiOptions, fdFolder = FD_FOLDER): Wasi {
  const memory = new GuestMemory()
  const table = new DescriptorTable()
  const stdout = new LineBuffer((line) => options.writeLine('stdout', line))
  const stderr = new LineBuffer((line) => options.writeLine('stderr', line))
  fillTable()

  function fillTable(): void {
    table.add(options.streams?.input ?? new EmptyInput())
    table.add(options.streams?.output ?? new LineOutput(stdout))
    table.add(new LineOutput(stderr))
    addFolders(table, options.allowedPaths ?? [], fdFolder)
  }
  function flush(): void {
    stdout.flush()
    stderr.flush()
  }
  const groups: GroupOfFunctions[] = []
  function group(index: number): GroupOfFunctions {
    groups[index] ??= GROUPS[index]?.(memory, table, options) ?? {}
    return groups[index]
  }
  return {
    get imports() {
      return Object.assign({}, ...GROUPS.map((_open, index) => group(index))) as WasiFunctions
    },
    function: (name) => group(GROUP_OF.get(name) ?? -1)[name],
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
  return GROUP_OF.has(name)
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

const GROUPS: readonly ((
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

/** The place in `GROUPS` of each function. */
const GROUP_OF: ReadonlyMap<string, number> = new Map(
  GROUPS.flatMap((open, index) => {
    const functions = open(new GuestMemory(), new DescriptorTable(), { writeLine: () => undefined })
    return Object.keys(functions).map((name) => [name, index] as const)
  }),
)

/** Folders get the numbers from 3 on, where libcs look for them. */
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
