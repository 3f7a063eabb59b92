import type { HostFunctions } from '../guest/host-functions.ts'
import type { Vars } from '../guest/vars.ts'
import type { Log, LogLimits } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { GuestHttp, HttpErrors } from './kernel-http.ts'
import type { WasiOptions } from './wasi/wasi.ts'

/** What joins a guest and its host: it opens instances of plug-ins. */
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

/** What an instance may use, and how much of it. */
export interface InstanceSettings extends LogLimits {
  /** What the guest reads with `config_get`. */
  readonly config: Readonly<Record<string, string>>
  /** What the guest finds there; none: WASI is off. */
  readonly wasi: Omit<WasiOptions, 'writeLine' | 'streams'> | undefined
  /** Most bytes that a call may produce. */
  readonly outputLimit: number
  /** Most bytes that guest and host may exchange in a call, the input among them. (`kernel`) */
  readonly blockLimit: number
  /** Most pages of 64 KiB of the same. Default: any number. (`sdk`) */
  readonly blockPages?: number | undefined
  /** Most bytes of variables that the instance may keep. */
  readonly varMax: number
  /** How the guest reaches other servers; not at all unless told. (`kernel`) */
  readonly http?: GuestHttp
  /** What a request of the guest that is refused or fails does. Default: `status`. */
  readonly httpErrors?: HttpErrors | undefined
  /** Functions of the user that the guest may import. */
  readonly functions?: HostFunctions | undefined
  /** Variables that others share; unless told, each instance has its own. (`kernel`) */
  readonly vars?: Vars
  /** Takes what the guest logs while no call is running. */
  readonly log: Log
  /** Lines that the guests of an engine may log in a second. Default: any number. */
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
   * Runs one export of the guest. Calls must not overlap: whoever owns the instance queues them.
   *
   * @param input - Copied: the guest never sees the caller's memory.
   * @returns What the guest produced, empty if nothing; at once where the runtime need not wait, as it must for an
   * async host function. It stays as it is when the next call begins.
   * @throws {@link InstanceBusyError} if a call is running, also to a host function that calls the instance it is called
   * by. {@link GuestError} if the guest said no, {@link BodyTooLargeError} if the input does not fit. After these, if
   * they have no `cause`, the instance goes on; after any other error it must be closed: traps leave guests half-way through what they did.
   */
  call(exportName: string, input: Uint8Array, caller: Caller): Uint8Array | Promise<Uint8Array>

  close(): Promise<void>
}
