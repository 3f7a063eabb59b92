import type { HostFunctions } from '../guest/host-functions.ts'
import type { Vars } from '../guest/vars.ts'
import type { Initialiser } from '../module/entry-points.ts'
import type { Log, LogLimits } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { GuestHttp, HttpErrors } from './kernel-host.ts'
import { ProcExit, type WasiOptions } from './wasi/wasi.ts'

/** Links guests to the host, and opens instances of plug-ins. */
export interface Runtime {
  readonly name: 'kernel' | 'sdk'

  /**
   * Opens one live copy of a plug-in: links it, runs its start function and what initialises its language, unless it is
   * a command.
   *
   * @returns at once where nothing has to be waited for.
   * @throws {@link InstanceStartError} if it cannot be linked, or traps while it starts.
   * @throws {@link PluginImportError}, {@link PdkOutdatedError}, {@link WasiDisabledError}, {@link HostFunctionInvalidError} or
   * {@link HostFunctionAsyncError} if an import is not met, or not as it would have to be.
   */
  open(plugin: CompiledPlugin, settings: InstanceSettings): Instance | Promise<Instance>
}

/** The resources of an instance and their limits. */
export interface InstanceSettings extends LogLimits {
  /** The values of `config_get`. */
  readonly config: Readonly<Record<string, string>>
  /** Arguments, environment and folders of the guest. undefined: WASI is off. */
  readonly wasi: Omit<WasiOptions, 'writeLine' | 'streams'> | undefined
  /** Maximum bytes of the output of a call. */
  readonly outputLimit: number
  /** Maximum bytes that guest and host may exchange in a call, the input included. (`kernel`) */
  readonly blockLimit: number
  /** The same limit in pages of 64 KiB. Default: no limit. (`sdk`) */
  readonly blockPages?: number | undefined
  /** Maximum bytes of variables that the instance may keep. */
  readonly varMax: number
  /** How the guest reaches other servers. Default: all requests are refused. (`kernel`) */
  readonly http?: GuestHttp
  /** The effect of a refused or failed request. Default: `status`. */
  readonly httpErrors?: HttpErrors | undefined
  /** Functions of the user that the guest may import. */
  readonly functions?: HostFunctions | undefined
  /** Variables shared by several instances. Default: each instance has its own. (`kernel`) */
  readonly vars?: Vars
  /** Receives the log lines of the guest while no call runs. */
  readonly log: Log
  /** Lines that the guests of an engine may log per second. Default: no limit. */
  readonly logRate?: number | undefined
  /** Whether the logs take lines while the guest runs, and nothing is lost if they are stopped half-way. */
  readonly logsAtOnce?: boolean
  /**
   * Whether it is opened to run the program of a command, `_start`, as its one call: nothing else starts it, its input
   * and its output are the standard ones too, and the status that it exits with is what it returns. (`kernel`)
   */
  readonly command?: boolean
  /** Called before a guest that waited for an async host function runs on. (`kernel`) */
  readonly onResume?: (() => void) | undefined
}

/** One live copy of a plug-in. Its memory, globals and vars stay from call to call. */
export interface Instance {
  /**
   * Bytes of memory that it holds, that of the guest's modules and what the runtime holds for them; they never shrink.
   * A memory that its module does not export cannot be seen, and is not counted.
   */
  readonly memoryBytes: number
  /** How many of them the runtime holds. */
  readonly kernelBytes: number

  /**
   * Runs one export of the guest. Calls must not overlap; the owner of the instance queues them.
   *
   * @param input - Copied: the guest never sees the caller's memory.
   * @returns The output of the guest, possibly empty. A promise only if the runtime has to wait, as for an async host
   * function. The next call does not change the bytes.
   * @throws {@link InstanceBusyError} if a call is running, also to a host function that calls the instance it is called
   * by. {@link GuestError} if the guest said no, {@link BodyTooLargeError} if the input does not fit. After these, if
   * they have no `cause`, the instance goes on; after any other error it must be closed: traps leave guests half-way through what they did.
   */
  call(exportName: string, input: Uint8Array, caller: Caller): Uint8Array | Promise<Uint8Array>

  close(): Promise<void>
}

/**
 * Runs the initialisers of a module. A function with parameters is skipped: it only has the name of an initialiser. A guest
 * that exits with `proc_exit(0)` counts as started.
 *
 * @throws whatever the guest throws, and {@link ProcExit} for another exit code.
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
