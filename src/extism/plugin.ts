import { EXTISM_ENV } from '../plugin/host-imports.ts'
import type { GuestConfig, GuestContext, GuestLogger, LogLevel, MemoryOptions } from './guest-context.ts'
import type { Anything, PluginOutput } from './output.ts'

/** A plug-in that `createPlugin` opened. Its calls run one at a time, in the order in which they are made. */
export interface ExtismPlugin {
  /** Whether the main module exports a function of this name. */
  functionExists(funcName: string): Promise<boolean>

  /**
   * Closes the files of the plug-in, and ends its thread: with `runInWorker`, calls that run or wait then reject. A second call
   * does nothing.
   */
  close(): Promise<void>

  /**
   * Calls an exported function.
   *
   * @param input - Text (sent as UTF-8) or bytes; other values are sent as JSON. Host functions that are not
   * async must not change the bytes.
   * @param hostContext - The value that `hostContext()` returns in host functions during this call.
   * @returns null if the function set no output. The output may have the buffer of the input, if it is the whole input.
   * @throws Error `Plugin-originated error: ...` if the function set an error, or returned a number other than 0; the error of a
   * host function; a `WebAssembly.RuntimeError` if the function trapped.
   */
  call<T>(
    funcName: string,
    input?: string | number | Uint8Array | object | null,
    hostContext?: T,
  ): Promise<PluginOutput | null>

  /** Exports of the main module. */
  getExports(): Promise<WebAssembly.ModuleExportDescriptor[]>

  /** Imports of the main module. */
  getImports(): Promise<WebAssembly.ModuleImportDescriptor[]>

  /** The instance of the main module. @throws Error with `runInWorker`: an instance cannot leave its thread. */
  getInstance(): Promise<WebAssembly.Instance>

  /** Whether a call is running, or waits. */
  isActive(): boolean

  /** Wipes the blocks of the last call. @returns false, and does nothing, while a call runs or waits. */
  reset(): Promise<boolean>
}

/** Arguments of `new Worker()` of `node:worker_threads`. */
interface NodeWorkerArgs {
  name?: string
  execArgv?: string[]
  argv?: string[]
  env?: Record<string, string>
  resourceLimits?: {
    maxOldGenerationSizeMb?: number
    maxYoungGenerationSizeMb?: number
    codeRangeSizeMb?: number
    stackSizeMb?: number
  }
  [k: string]: Anything
}

/** Host functions by namespace and name. */
interface GuestFunctions {
  [namespace: string]: { [name: string]: (callContext: GuestContext, ...args: Anything[]) => Anything }
}

/** Options that a manifest may contain, too. Those of `createPlugin` take precedence. */
export interface ManifestOptions {
  /** Folders of the host, by their path in the guest. */
  allowedPaths?: { [guestPath: string]: string } | undefined
  /** Hosts to which the guest may send requests; `*` matches any text. Needs `runInWorker`, or Node 24. */
  allowedHosts?: string[] | undefined
  memory?: MemoryOptions
  config?: GuestConfig
  /**
   * Maximum milliseconds of a call, and of the start of the guest. A module that was compiled before needs `runInWorker`.
   * Default: no limit.
   */
  timeoutMs?: number | null
}

export interface ExtismPluginOptions extends ManifestOptions {
  /** Whether the guest may import WASI preview 1. Default: false. */
  useWasi?: boolean
  /** Whether the plug-in runs in a thread of its own. Default: false. */
  runInWorker?: boolean
  /** Receives the log lines of the guest. Default: `console`. */
  logger?: Console
  /** Minimum log level. Default: `silent`. */
  logLevel?: LogLevel
  /** Functions that the guest may import; async ones need `runInWorker`, or Node 24. */
  functions?: GuestFunctions | undefined
  /**
   * Whether the guest's standard input and output are those of the process. Default: whether the variable
   * `EXTISM_ENABLE_WASI_OUTPUT` is set.
   */
  enableWasiOutput?: boolean
  /** Fetches modules, manifests and the requests of the guest. Default: the global `fetch`. */
  fetch?: typeof fetch
  /** Has no effect: both threads use the same blocks. */
  sharedArrayBufferSize?: number
  /** Whether the guest may read the headers of responses. Default: false. */
  allowHttpResponseHeaders?: boolean
  /** Arguments of `new Worker()`. */
  nodeWorkerArgs?: NodeWorkerArgs
}

/** Capabilities of the platform, as in `@extism/extism`. */
export interface Capabilities {
  /** Whether host functions may be async without `runInWorker`: Node 24 and later. */
  supportsJSPromiseInterface: boolean
  allowSharedBufferCodec: boolean
  manifestSupportsPaths: boolean
  crossOriginChecksEnforced: boolean
  fsAccess: boolean
  hasWorkerCapability: boolean
  supportsWasiPreview1: boolean
  supportsTimeouts: boolean
  /** Whether `EXTISM_ENABLE_WASI_OUTPUT` was set when this module was loaded. */
  extismStdoutEnvVarSet: boolean
}

/** Options of a plug-in, each with its final value. */
export interface GuestOptions {
  readonly allowedPaths: Readonly<Record<string, string>>
  readonly allowedHosts: readonly string[]
  readonly memory: MemoryOptions
  readonly config: GuestConfig
  readonly timeoutMs: number | undefined
  readonly useWasi: boolean
  readonly enableWasiOutput: boolean
  readonly logger: GuestLogger
  readonly logLevel: LogLevel
  readonly functions: GuestFunctions
  readonly fetch: typeof fetch
  readonly allowHttpResponseHeaders: boolean
  readonly nodeWorkerArgs: NodeWorkerArgs
}

/** The modules of a plug-in; one of them has the name `main`. */
export interface NamedModule {
  readonly name: string
  readonly module: WebAssembly.Module
}

/** The bytes of an input; undefined if there is none. */
export function inputBytes(input: unknown): string | Uint8Array | undefined {
  if (input === undefined || input === null) return undefined
  if (typeof input === 'string' || input instanceof Uint8Array) return input
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
  if (input instanceof ArrayBuffer || input instanceof SharedArrayBuffer) return new Uint8Array(input)
  return JSON.stringify(input)
}

/** The bytes of an input that has to wait: its caller may change them meanwhile. */
export function ownBytes(input: string | Uint8Array | undefined): string | Uint8Array | undefined {
  return input instanceof Uint8Array ? new Uint8Array(input) : input
}

export function mainModule(modules: readonly NamedModule[]): WebAssembly.Module {
  const main = modules.find(({ name }) => name === 'main')
  if (main) return main.module
  throw new Error('manifest with multiple modules must designate one "main" module')
}

/** Whether one of the modules imports the function of Extism that sends requests. */
export function sendsHttp(modules: readonly NamedModule[]): boolean {
  return modules.some(({ module }) =>
    WebAssembly.Module.imports(module).some(
      ({ module: namespace, name }) => namespace === EXTISM_ENV && name === 'http_request',
    ),
  )
}

/** Maximum bytes of the blocks of a call. The kernel rounds the length of a block up by an eighth at most. */
export function blockLimitOf({ maxPages }: MemoryOptions): number {
  return maxPages ? Math.ceil((maxPages * 65_536 * 9) / 8) : Number.POSITIVE_INFINITY
}
