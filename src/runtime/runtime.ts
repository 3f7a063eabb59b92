import type { InstanceServices } from '../guest/services/service.ts'
import type { Initialiser } from '../module/entry-points.ts'
import type { Log, LogLimits } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
import type { ByteSource } from '../platform/chunks.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { HttpErrors } from './kernel-host.ts'
import type { KernelMemory } from './kernel-memory.ts'
import { ProcExit, type WasiOptions } from './wasi/wasi.ts'

/** Links guests to the host, and opens instances of plug-ins. */
export interface Runtime {
  readonly name: 'kernel' | 'sdk'

  /**
   * Opens an instance of a plug-in: links it, runs its start function and its language's initializers, unless it is a
   * command.
   *
   * @returns synchronously, unless something has to be waited for.
   * @throws {@link InstanceStartError} if it cannot be linked, or traps during its start.
   * @throws {@link PluginImportError}, {@link PdkOutdatedError}, {@link WasiDisabledError}, {@link HostFunctionInvalidError} or
   * {@link HostFunctionAsyncError} if an import is missing or unsuitable.
   */
  open(plugin: CompiledPlugin, settings: InstanceSettings): Instance | Promise<Instance>
}

/** The resources of an instance and their limits. */
export interface InstanceSettings extends LogLimits, Omit<InstanceServices, 'calls'> {
  /** The values of `config_get`. */
  readonly config: Readonly<Record<string, string>>
  /** Arguments, environment and folders of the guest. undefined: WASI is off. */
  readonly wasi: Omit<WasiOptions, 'writeLine' | 'streams'> | undefined
  /** Maximum bytes of the output of a call. */
  readonly outputLimit: number
  /** Maximum bytes that guest and host may exchange in a call, including the input. (`kernel`) */
  readonly blockLimit: number
  /** `blockLimit` in pages of 64 KiB. Default: no limit. (`sdk`) */
  readonly blockPages?: number | undefined
  /** Maximum bytes of the instance's variables. */
  readonly varMax: number
  /** The effect of a refused or failed request. Default: `trap`. */
  readonly httpErrors?: HttpErrors | undefined
  /** Receives the log lines of the guest while no call runs. */
  readonly log: Log
  /** Maximum log lines per second of an engine's guests. Default: no limit. */
  readonly logRate?: number | undefined
  /** Whether logs accept lines while the guest runs, without loss if it is interrupted. */
  readonly logsAtOnce?: boolean
  /**
   * Whether it is opened to run the program of a command, `_start`, as its only call. It has no other start function;
   * input and output are also standard input and output; the result is the exit status. (`kernel`)
   */
  readonly command?: boolean
  /** Called before a guest that waited for an async host function continues. (`kernel`) */
  readonly onResume?: (() => void) | undefined
  /** Maximum number of checks for interrupts of a call. Default: no limit, and they are not counted. (`kernel`) */
  readonly budget?: number | undefined
  /** The memories of the blocks. Default: a new one for each instance. (`kernel`) */
  readonly memories?: BlockMemories | undefined
}

/** Memories that the owner of the instances reads, too: it wipes them after each call. */
export interface BlockMemories {
  open(blockLimit: number): KernelMemory
  /** An instance that was closed used it. It is wiped. */
  close(memory: KernelMemory): void
}

/** Called often while a guest runs. If it returns a promise, the guest is suspended until that resolves. */
export type Pause = () => Promise<void> | undefined

/** An instance of a plug-in. Its memory, globals and variables stay between calls. */
export interface Instance {
  /**
   * Size of its memory in bytes: of the guest's modules and of the runtime for them. It never shrinks. Memories that a
   * module does not export are not counted.
   */
  readonly memoryBytes: number
  /** The runtime's part of these bytes. */
  readonly kernelBytes: number
  /**
   * Whether the guest has exited (`proc_exit`) in a call. Then it must be closed: its destructors have run, and its stack
   * was not unwound.
   */
  readonly hasExited: boolean
  /** Checks of the last call. Default: they are not counted. */
  readonly checks?: number | undefined

  /**
   * Runs one export of the guest. Calls must not overlap; the owner of the instance queues them.
   *
   * @param input - Copied: the guest never sees the caller's memory.
   * @returns the output of the guest, possibly empty. It is a promise only if the runtime has to wait, as for an async host
   * function. The next call does not change the bytes, unless they are a view of memory that its owner gave it.
   * @throws {@link InstanceBusyError} if a call is running, even for a host function that calls its own instance;
   * {@link GuestError} if the guest returned an error; {@link BodyTooLargeError} if the input does not fit. After these, if
   * they have no `cause`, the instance can continue. After any other error it must be closed, because a trap interrupts
   * the guest.
   *
   * @param pause - Ignored where the guest cannot be suspended.
   */
  call(exportName: string, input: ByteSource, caller: Caller, pause?: Pause): Uint8Array | Promise<Uint8Array>

  close(): Promise<void>
}

/**
 * Runs the initializers of a module. A function with parameters is skipped: it only has the name of an initializer. A
 * guest that exits with `proc_exit(0)` counts as started.
 *
 * @throws the guest's error, and {@link ProcExit} for another exit code.
 */
export function startGuest(exports: WebAssembly.Exports, initialisers: readonly Initialiser[]): void {
  try {
    for (const name of initialisers) {
      const run = exports[name]
      if (!isFunction(run)) continue
      if (name === 'hs_init')
        run(0, 0) // argc, argv
      else if (run.length === 0) run()
    }
  } catch (thrown) {
    if (!(thrown instanceof ProcExit && thrown.code === 0)) throw thrown
  }
}

function isFunction(value: unknown): value is (...args: number[]) => unknown {
  return typeof value === 'function'
}
