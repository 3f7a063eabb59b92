import { Worker } from 'node:worker_threads'
import { ExtismPluginClosedError, ExtismThreadLostError, InstanceRemoteError } from '../errors/extism.ts'
import { EXTISM_ENV } from '../plugin/host-imports.ts'
import { CallQueue } from './call-queue.ts'
import { LATE } from './deadline.ts'
import { GuestContext, type GuestLogger } from './guest-context.ts'
import { mapMembers, type UserFunctions } from './guest-instance.ts'
import { requestFunctions } from './guest-requests.ts'
import { outputOf } from './inline-plugin.ts'
import { type KernelBlocks, openSharedBlocks } from './kernel-blocks.ts'
import type { PluginOutput } from './output.ts'
import {
  blockLimitOf,
  type ExtismPlugin,
  type GuestOptions,
  inputBytes,
  mainModule,
  type NamedModule,
  ownBytes,
} from './plugin.ts'
import {
  ANSWER_BYTES,
  type ThreadFailure,
  type ThreadMessage,
  type ThreadStart,
  writeAnswer,
} from './thread-messages.ts'
import { THREAD_SCRIPT } from './thread-script.ts'

/** Opens a plug-in in a worker thread. Host functions run in this thread; the guest waits for them. */
export async function openThreadPlugin(
  modules: readonly NamedModule[],
  options: GuestOptions,
): Promise<ExtismPlugin> {
  mainModule(modules)
  const plugin = new ThreadPlugin(modules, options)
  await plugin.start()
  return plugin
}

class ThreadPlugin implements ExtismPlugin {
  readonly #modules: readonly NamedModule[]
  readonly #options: GuestOptions
  readonly #context: GuestContext
  readonly #functions: UserFunctions
  readonly #calls = new CallQueue(true)
  #blocks: KernelBlocks
  /** Undefined after a time-out, until the next call. */
  #thread: GuestThread | undefined
  #isClosed = false

  constructor(modules: readonly NamedModule[], options: GuestOptions) {
    this.#modules = modules
    this.#options = options
    this.#blocks = openSharedBlocks(blockLimitOf(options.memory))
    this.#context = new GuestContext({ ...options, blocks: this.#blocks })
    const fetch = options.fetch === globalThis.fetch ? options.fetch : this.#calls.within(options.fetch)
    const own = { ...requestFunctions({ ...options, fetch }), ...GuestContext.variablesOf(this.#context) }
    const functions = mapMembers(options.functions, (run) => this.#calls.within(run))
    this.#functions = { ...functions, [EXTISM_ENV]: { ...own, ...functions[EXTISM_ENV] } }
  }

  /** @throws Error if the guest does not start, or not in time. */
  async start(): Promise<GuestThread> {
    const thread = new GuestThread(this.#options, (message) => this.#runHost(thread, message))
    this.#thread = thread
    const { useWasi, enableWasiOutput, allowedPaths, config, memory } = this.#options
    const { logLevel } = this.#context
    try {
      await thread.run(
        {
          modules: this.#modules,
          options: { useWasi, enableWasiOutput, allowedPaths, logLevel },
          config,
          memoryOptions: memory,
          functions: Object.fromEntries(
            Object.entries(this.#functions).map(([namespace, members]) => [namespace, Object.keys(members)]),
          ),
          memory: this.#blocks.memory,
          answer: thread.answer,
        },
        LATE.start,
      )
    } catch (error) {
      await this.#dropThread()
      throw error
    }
    return thread
  }

  async call<T>(funcName: string, input?: unknown, hostContext?: T): Promise<PluginOutput | null> {
    if (this.#isClosed) throw new Error('worker not initialized')
    let bytes = inputBytes(input)
    const turn = this.#calls.begin()
    try {
      if (turn) {
        bytes = ownBytes(bytes)
        await turn
        if (this.#isClosed) throw new ExtismPluginClosedError()
      }
      const thread = this.#thread?.isAlive ? this.#thread : await this.#startAgain()
      this.#blocks.reset()
      if (bytes !== undefined) this.#blocks.input(bytes)
      GuestContext.begin(this.#context, hostContext)
      const code = await thread.run({ call: funcName }, LATE.call)
      return outputOf(this.#blocks, funcName, code)
    } finally {
      GuestContext.end(this.#context)
      if (!this.#thread?.isAlive) await this.#dropThread()
      this.#calls.end()
    }
  }

  async functionExists(funcName: string): Promise<boolean> {
    const exported = await this.getExports()
    return exported.some(({ name, kind }) => name === funcName && kind === 'function')
  }

  async getExports(): Promise<WebAssembly.ModuleExportDescriptor[]> {
    return WebAssembly.Module.exports(mainModule(this.#modules))
  }

  async getImports(): Promise<WebAssembly.ModuleImportDescriptor[]> {
    return WebAssembly.Module.imports(mainModule(this.#modules))
  }

  async getInstance(): Promise<WebAssembly.Instance> {
    throw new InstanceRemoteError()
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
    this.#isClosed = true
    await this.#dropThread()
  }

  /** The new thread gets new blocks: the old thread may have been stopped while it changed the old ones. */
  #startAgain(): Promise<GuestThread> {
    this.#blocks = openSharedBlocks(blockLimitOf(this.#options.memory))
    GuestContext.use(this.#context, this.#blocks)
    return this.start()
  }

  async #dropThread(): Promise<void> {
    const thread = this.#thread
    this.#thread = undefined
    await thread?.end(new ExtismPluginClosedError())
  }

  async #runHost(
    thread: GuestThread,
    { namespace, name, args }: Extract<ThreadMessage, { kind: 'host' }>,
  ): Promise<void> {
    try {
      const run = this.#functions[namespace]?.[name]
      if (!run) throw new Error(`Plugin error: host function "${namespace}" "${name}" does not exist`)
      thread.answerHost(await GuestContext.run(this.#context, run, args))
    } catch (thrown) {
      thread.failHost(thrown)
    }
  }
}

type HostMessage = Extract<ThreadMessage, { kind: 'host' }>

/** A logger may lack a level. Thrown here, the error of that would end the process. */
function logLine(logger: GuestLogger, { level, line }: Extract<ThreadMessage, { kind: 'log' }>): void {
  if (typeof logger[level] === 'function') logger[level](line)
  else logger.error(`failed to find loglevel="${level}" on logger: message=${line}`)
}

/** A thread with a guest. It keeps the process alive during a call only. */
class GuestThread {
  readonly answer = new SharedArrayBuffer(ANSWER_BYTES)
  isAlive = true
  readonly #worker: Worker
  readonly #timeoutMs: number | undefined
  #settle: ((failure: unknown, code?: number) => void) | undefined
  #thrown: unknown
  #startClock: (() => void) | undefined
  #isUp = false

  constructor(
    { nodeWorkerArgs, timeoutMs, logger }: GuestOptions,
    runHost: (message: HostMessage) => Promise<void>,
  ) {
    this.#timeoutMs = timeoutMs
    this.#worker = new Worker(THREAD_SCRIPT, {
      name: 'extism plugin',
      execArgv: [], // by default those of the process, which may load modules
      ...nodeWorkerArgs,
      eval: true,
    })
    this.#worker.on('message', (message: ThreadMessage) => {
      if (message.kind === 'host') void runHost(message)
      else if (message.kind === 'log') logLine(logger, message)
      else if (message.kind === 'up') this.#comeUp()
      else this.#settle?.(message.failure && this.#toError(message.failure), message.code)
    })
    this.#worker.on('error', (error) => this.#die(error))
    this.#worker.on('exit', (code) => this.#die(new ExtismThreadLostError(code)))
  }

  /**
   * Starts the guest, or calls it.
   *
   * @param late - Message of the error at the time limit. The thread is unusable then.
   * @returns the return code of the guest's function.
   */
  async run(message: ThreadStart | { readonly call: string }, late: string): Promise<number> {
    this.#worker.ref()
    let timer: NodeJS.Timeout | undefined
    try {
      return await new Promise((resolve, reject) => {
        this.#settle = (failure, code = 0) => (failure === undefined ? resolve(code) : reject(failure))
        this.#startClock = () => {
          if (this.#timeoutMs) timer = setTimeout(() => this.#die(new Error(late)), this.#timeoutMs)
        }
        if (this.#isUp) this.#startClock()
        this.#worker.postMessage(message)
      })
    } finally {
      clearTimeout(timer)
      this.#settle = undefined
      this.#thrown = undefined
      if (this.isAlive) this.#worker.unref() // its end is waited for
    }
  }

  answerHost(returned: unknown): void {
    writeAnswer(this.answer, returned)
  }

  failHost(thrown: unknown): void {
    this.#thrown = thrown
    writeAnswer(this.answer, undefined, true)
  }

  /** @param reason - The error of a running call. */
  async end(reason: Error): Promise<void> {
    this.#die(reason)
    await this.#worker.terminate()
  }

  /** The time limit begins with the guest: the start of a thread takes long on a busy machine. */
  #comeUp(): void {
    this.#isUp = true
    this.#startClock?.()
  }

  #die(reason: unknown): void {
    this.isAlive = false
    this.#settle?.(reason)
  }

  #toError({ isTrap, isOfHost, message, stack }: ThreadFailure): unknown {
    if (isOfHost) return this.#thrown
    const error = isTrap ? new WebAssembly.RuntimeError(message) : new Error(message)
    if (stack !== undefined) error.stack = stack
    return error
  }
}
