import { openClocks } from './wasi/clocks.ts'
import { DescriptorTable } from './wasi/descriptor-table.ts'
import { Directory, FD_FOLDER } from './wasi/directory.ts'
import { openFdFunctions } from './wasi/fd-functions.ts'
import { Folder } from './wasi/folder.ts'
import { openFolderFunctions } from './wasi/folder-functions.ts'
import { GuestMemory } from './wasi/guest-memory.ts'
import { LineBuffer } from './wasi/line-buffer.ts'
import { openPoll } from './wasi/poll.ts'
import { processFunctions } from './wasi/process.ts'
import { openRandom } from './wasi/random.ts'
import { socketFunctions } from './wasi/sockets.ts'
import { EmptyInput, LineOutput } from './wasi/standard-streams.ts'
import { openStrings } from './wasi/strings.ts'

export { ProcExit } from './wasi/process.ts'

/** What a guest gets of WASI. What is not named here, it does not get. */
export interface WasiOptions {
  /** Arguments of the program; the first is its name. One name by default, as C programs count on it. */
  readonly args?: readonly string[]
  /** Environment variables: none but these. */
  readonly env?: Readonly<Record<string, string>>
  /** Folders; none by default, and then there is no file system. */
  readonly allowedPaths?: readonly AllowedPath[]
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
  readonly imports: ReturnType<typeof openFunctions>

  /** Tells where the guest's memory is. Until then, every pointer is `EFAULT`: what a start function may find. */
  attach(memory: WebAssembly.Memory): void

  /** Writes lines that the guest has not finished. Call it after each call, or they mix with the next call's. */
  flush(): void

  /** Flushes, and closes what the guest has open. */
  close(): void
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
  table.add(new EmptyInput())
  table.add(new LineOutput(stdout))
  table.add(new LineOutput(stderr))
  addFolders(table, options.allowedPaths ?? [], fdFolder)

  function flush(): void {
    stdout.flush()
    stderr.flush()
  }
  return {
    imports: openFunctions(memory, table, options),
    attach: (guestMemory) => memory.attach(guestMemory),
    flush,
    close() {
      table.closeAll()
      flush()
    },
  }
}

function openFunctions(
  memory: GuestMemory,
  table: DescriptorTable,
  { args = ['plugin'], env = {} }: WasiOptions,
) {
  // Not one literal with spreads: on Node 20 that takes 90 us, more than all else that opening an instance needs.
  return Object.assign(
    openFdFunctions(memory, table),
    openFolderFunctions(memory, table),
    Object.assign(openPoll(memory, table), openStrings(memory, args, env), openClocks(memory)),
    Object.assign(openRandom(memory), processFunctions, socketFunctions),
  )
}

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
