import { suspending } from '../platform/missing-types.ts'
import { EXTISM_ENV } from '../plugin/host-imports.ts'
import { CallQueue } from './call-queue.ts'
import { Deadline, isCheck, LATE } from './deadline.ts'
import { GuestContext } from './guest-context.ts'
import { areAsync, exitStatusOf, functionImports, GuestInstance } from './guest-instance.ts'
import { requestFunctions } from './guest-requests.ts'
import { type KernelBlocks, openKernelBlocks } from './kernel-blocks.ts'
import { PluginOutput } from './output.ts'
import {
  blockLimitOf,
  type ExtismPlugin,
  type GuestOptions,
  inputBytes,
  mainModule,
  type NamedModule,
  ownBytes,
  sendsHttp,
} from './plugin.ts'

/** Opens a plug-in in this thread. A call blocks the thread, unless an async host function suspends the guest. */
export function openInlinePlugin(modules: readonly NamedModule[], options: GuestOptions): ExtismPlugin {
  const blocks = openKernelBlocks(blockLimitOf(options.memory))
  const context = new GuestContext({ ...options, blocks })
  const http = suspending && sendsHttp(modules) ? { [EXTISM_ENV]: requestFunctions(options) } : {}
  const functions = { ...http, ...options.functions }
  if (EXTISM_ENV in http && EXTISM_ENV in options.functions)
    functions[EXTISM_ENV] = { ...http[EXTISM_ENV], ...options.functions[EXTISM_ENV] }
  const isAsync = areAsync(functions)
  const calls = new CallQueue(isAsync)
  const imports = functionImports(context, functions, calls)
  const open = () => {
    const deadline = options.timeoutMs === undefined ? undefined : new Deadline(options.timeoutMs)
    deadline?.begin()
    try {
      return new GuestInstance({
        ...{ modules, options, context, functions: imports, deadline },
        suspending: isAsync ? suspending : undefined,
      })
    } catch (error) {
      throw deadline?.isOver ? new Error(LATE.start) : error
    } finally {
      deadline?.end()
      blocks.reset()
    }
  }
  return new InlinePlugin(mainModule(modules), open, context, blocks, calls)
}

class InlinePlugin implements ExtismPlugin {
  readonly #main: WebAssembly.Module
  readonly #open: () => GuestInstance
  #guest: GuestInstance
  /** Whether the guest was ended at its time limit: the next call finds another one. */
  #isEnded = false
  readonly #context: GuestContext
  readonly #blocks: KernelBlocks
  readonly #calls: CallQueue

  constructor(
    main: WebAssembly.Module,
    open: () => GuestInstance,
    context: GuestContext,
    blocks: KernelBlocks,
    calls: CallQueue,
  ) {
    this.#main = main
    this.#open = open
    this.#guest = open()
    this.#context = context
    this.#blocks = blocks
    this.#calls = calls
  }

  async call<T>(funcName: string, input?: unknown, hostContext?: T): Promise<PluginOutput | null> {
    let run = this.#find(funcName)
    let bytes = inputBytes(input)
    const turn = this.#calls.begin()
    let code: number
    try {
      if (turn) {
        bytes = ownBytes(bytes)
        await turn
        run = this.#find(funcName)
      }
      this.#blocks.reset()
      if (bytes !== undefined) this.#blocks.input(bytes)
      GuestContext.begin(this.#context, hostContext)
      const { deadline } = this.#guest
      deadline?.begin()
      const returned = run()
      const later = returned instanceof Promise ? (deadline?.wait(returned) ?? returned) : undefined
      code = this.#guest.codeOf(funcName, later ? await later : returned)
      deadline?.end()
    } catch (thrown) {
      this.#isEnded = this.#guest.deadline?.isOver === true
      if (this.#isEnded) throw new Error(LATE.call)
      this.#guest.deadline?.end()
      code = exitStatusOf(thrown)
    } finally {
      GuestContext.end(this.#context)
      this.#calls.end()
    }
    // The next call begins in a later microtask.
    return outputOf(this.#blocks, funcName, code)
  }

  #find(funcName: string): () => unknown {
    if (this.#isEnded) {
      this.#guest.close()
      this.#guest = this.#open()
      this.#isEnded = false
    }
    return this.#guest.function(funcName)
  }

  async functionExists(funcName: string): Promise<boolean> {
    return typeof this.#guest.instance.exports[funcName] === 'function'
  }

  async getExports(): Promise<WebAssembly.ModuleExportDescriptor[]> {
    return WebAssembly.Module.exports(this.#main).filter((exported) => !isCheck(exported))
  }

  async getImports(): Promise<WebAssembly.ModuleImportDescriptor[]> {
    return WebAssembly.Module.imports(this.#main)
  }

  async getInstance(): Promise<WebAssembly.Instance> {
    return this.#guest.instance
  }

  isActive(): boolean {
    return this.#calls.isActive
  }

  async reset(): Promise<boolean> {
    if (this.#calls.isActive) return false
    this.#blocks.reset()
    return true
  }

  async close(): Promise<void> {
    this.#guest.close()
  }
}

/**
 * The output of an ended call.
 *
 * @param code - The return code of the function, or the status with which the guest exited.
 * @throws Error with the error that the guest set, or with a code other than 0.
 */
export function outputOf(blocks: KernelBlocks, funcName: string, code: number): PluginOutput | null {
  const error = blocks.error() ?? (code === 0 ? undefined : `function "${funcName}" returned ${code}`)
  if (error !== undefined) throw new Error(`Plugin-originated error: ${error}`)
  const output = blocks.output()
  return output ? new PluginOutput(output) : null
}
