import {
  BodyTooLargeError,
  BudgetExceededError,
  FunctionUnknownError,
  GuestError,
  InstanceBusyError,
  InstanceStartError,
  OutputTooLargeError,
} from '../errors/errors.ts'
import { describeTrap, interruptionError } from '../guest/host-functions.ts'
import { type OwnVars, openVars } from '../guest/vars.ts'
import { START } from '../module/entry-points.ts'
import { GuestLog } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
import { type ByteSource, joinBytes } from '../platform/chunks.ts'
import type { Suspending } from '../platform/missing-types.ts'
import { explainLimit } from '../platform/system-errors.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import { CheckBudget } from './check-budget.ts'
import { type InitialStates, MemoryReusePolicy } from './instance-reset.ts'
import { HttpCalls, refuseHttp } from './kernel-host.ts'
import { type Linked, linkModules } from './kernel-link.ts'
import { type KernelMemory, openKernelMemory } from './kernel-memory.ts'
import { type LinkPlan, planLinks } from './link-plan.ts'
import { CallContexts } from './linked-call-context.ts'
import { Pauses } from './pauses.ts'
import { returnCode } from './return-code.ts'
import { type Instance, type InstanceSettings, type Pause, type Runtime, startGuest } from './runtime.ts'
import { ProcExit, ProgramStreams, type Wasi } from './wasi/wasi.ts'

/**
 * The Extism host of wasm-serve: the guest is linked to `kernel.wasm`, and calls are synchronous. Only with an async host
 * function does `call` return a promise.
 */
export const kernel = { name: 'kernel', open: openInstance } as const satisfies Runtime

function openInstance(plugin: CompiledPlugin, settings: InstanceSettings): Instance {
  const plan = planLinks(plugin, settings)
  const place = instanceCacheFor(plan, settings)
  const parts = takeParts(place) ?? linkParts(plugin, plan, settings, place.origins)
  const leave = (isWhole: boolean) => {
    if (!isWhole || !keepParts(place, parts)) settings.memories?.close(parts.memory)
  }
  return new LinkedInstance(parts, leave)
}

function linkParts(
  plugin: CompiledPlugin,
  plan: LinkPlan,
  settings: InstanceSettings,
  origins: InitialStates,
): InstanceParts {
  const { config, blockLimit, varMax, wasi, onResume, outputLimit, command } = settings
  const log = new GuestLog(settings.log, { plugin: plugin.name }, settings.logsAtOnce, settings)
  return starting(plugin.name, log, () => {
    const memories = plan.kernelMemory === 'own' ? undefined : settings.memories
    const memory = memories?.open(blockLimit) ?? openKernelMemory(blockLimit, plan.kernelMemory)
    const ownVars = openVars(varMax)
    const vars = settings.vars ?? ownVars
    const http = new HttpCalls(settings.http ?? refuseHttp, memory, log, settings.httpErrors)
    const contexts = new CallContexts({ memory, vars })
    const streams = command ? new ProgramStreams(outputLimit, (line) => log.write('info', line)) : undefined
    const budget = settings.budget === undefined ? undefined : new CheckBudget(settings.budget)
    const host = { memory, config, vars, log, http, wasi, streams, contexts, origins, onResume, budget }
    const linked = linkModules(plan, host)
    if (budget && !budget.isCounted)
      throw new Error('its guests cannot be interrupted, so its budget is not counted')
    const parts = {
      name: plugin.name,
      outputLimit,
      linked,
      memory,
      leavesOutput: memories !== undefined,
      memoryReuse: new MemoryReusePolicy(memory.size),
      ownVars,
      log,
      http: plan.usesHttp ? http : undefined,
      contexts: plan.hostFunctions.length > 0 ? contexts : undefined,
      suspending: plan.suspending,
      streams,
      functions: new Map(),
      pauses: mayPause(plugin, plan) ? Pauses.of(linked.exports, budget) : undefined,
      budget,
    }
    endStart(parts)
    return parts
  })
}

/**
 * Whether a guest may be suspended where it checks. Between linked modules there may be JavaScript, which cannot be. A guest that
 * waits for the host is suspended anyway, and its waits would count as slices.
 */
function mayPause({ linked }: CompiledPlugin, { suspending }: LinkPlan): boolean {
  return linked.length === 0 && suspending === undefined
}

/** @throws {@link InstanceStartError} */
function starting<Result>(name: string, log: GuestLog, start: () => Result): Result {
  try {
    return start()
  } catch (error) {
    log.end()
    throw new InstanceStartError(name, explainLimit(error) ?? describeTrap(error).reason, { cause: error })
  }
}

function endStart({ linked, log, contexts, http, memory }: InstanceParts): void {
  for (const wasi of linked.wasis) wasi.flush()
  log.end()
  contexts?.end()
  http?.end()
  memory.reset()
}

/** Shared by the instances with the same settings. */
interface InstanceCache {
  readonly plan: LinkPlan
  readonly origins: InitialStates
  /** The parts of the last closed instance: the inline engine opens instances one after another. */
  spare: InstanceParts | undefined
}

const instanceCaches = new WeakMap<InstanceSettings, InstanceCache>()

function instanceCacheFor(plan: LinkPlan, settings: InstanceSettings): InstanceCache {
  const known = instanceCaches.get(settings)
  if (known?.plan === plan) return known
  const place = { plan, origins: {}, spare: undefined }
  instanceCaches.set(settings, place)
  return place
}

/** Restores the initial state, if possible. No guest may be running in the parts or have been interrupted. */
function keepParts(place: InstanceCache, parts: InstanceParts): boolean {
  if (!parts.linked.renewal || !parts.memoryReuse.isKept(parts.memory.size)) return false
  if (!parts.linked.renewal.renew()) return false
  parts.ownVars.clear()
  place.spare = parts
  return true
}

/**
 * Reuses parts in the state of newly linked and started ones.
 *
 * @throws {@link InstanceStartError}
 */
function takeParts(place: InstanceCache): InstanceParts | undefined {
  const parts = place.spare
  if (!parts) return undefined
  place.spare = undefined
  if (parts.linked.wasis.length > 0 || parts.linked.renewal?.needsStart) startAgain(parts, place.plan)
  return parts
}

function startAgain(parts: InstanceParts, { initialisers }: LinkPlan): void {
  const { exports, wasis, renewal } = parts.linked
  starting(parts.name, parts.log, () => {
    try {
      for (const wasi of wasis) wasi.reopen()
      if (!renewal?.needsStart) return
      parts.budget?.beginStart()
      startGuest(exports, initialisers)
      endStart(parts)
    } catch (error) {
      for (const wasi of wasis) wasi.close()
      throw error
    }
  })
}

/** The parts of a kernel instance. */
interface InstanceParts {
  /** The plug-in's. */
  readonly name: string
  readonly outputLimit: number
  readonly linked: Linked
  readonly memory: KernelMemory
  /** Whether outputs stay in the memory until its owner wipes it. */
  readonly leavesOutput: boolean
  /** Whether the parts are worth keeping. */
  readonly memoryReuse: MemoryReusePolicy
  /** Unused if variables are shared. */
  readonly ownVars: OwnVars
  readonly log: GuestLog
  /** undefined if it is not imported. */
  readonly http: HttpCalls | undefined
  /** undefined if no host function of the user is imported. */
  readonly contexts: CallContexts | undefined
  /** How the guest waits for the host; undefined if it need not. */
  readonly suspending: Suspending | undefined
  /** undefined unless the call is a program. */
  readonly streams: ProgramStreams | undefined
  /** The guest functions called so far. */
  readonly functions: Map<string, GuestFunction>
  /** Suspends the guest where it checks for interrupts; undefined if that is impossible. */
  readonly pauses: Pauses | undefined
  readonly budget: CheckBudget | undefined
}

type GuestFunction = () => unknown

/** An instance. With an async host function its calls always return promises; otherwise never. */
class LinkedInstance implements Instance {
  readonly #parts: InstanceParts
  readonly #memory: KernelMemory
  readonly #log: GuestLog
  readonly #http: HttpCalls | undefined
  readonly #contexts: CallContexts | undefined
  readonly #budget: CheckBudget | undefined
  readonly #wasis: readonly Wasi[]
  readonly #streams: ProgramStreams | undefined
  readonly #isAsync: boolean
  readonly #leave: (isWhole: boolean) => void
  /** Stays true after `close`, so that later calls are rejected. */
  #isRunning = false
  #isClosed = false
  /** Whether no call was interrupted. */
  #isWhole = true
  /** Whether the output of the call stays in the memory. */
  #isOutputLeft = false
  #hasExited = false

  /** @param leave - Called by `close` if no call runs. The parts can be used again if none was interrupted: they are whole. */
  constructor(parts: InstanceParts, leave: (isWhole: boolean) => void) {
    this.#parts = parts
    this.#memory = parts.memory
    this.#log = parts.log
    this.#http = parts.http
    this.#contexts = parts.contexts
    this.#budget = parts.budget
    this.#wasis = parts.linked.wasis
    this.#streams = parts.streams
    this.#isAsync = parts.suspending !== undefined
    this.#leave = leave
  }

  get memoryBytes(): number {
    const { memories } = this.#parts.linked
    return memories.reduce((bytes, { buffer }) => bytes + buffer.byteLength, this.#memory.size)
  }

  get kernelBytes(): number {
    return this.#memory.size
  }

  get hasExited(): boolean {
    return this.#hasExited
  }

  get checks(): number | undefined {
    return this.#budget?.used
  }

  call(
    exportName: string,
    input: ByteSource,
    caller: Caller,
    pause?: Pause,
  ): Uint8Array | Promise<Uint8Array> {
    const run = this.#parts.functions.get(exportName) ?? this.#find(exportName)
    if (this.#isRunning) throw new InstanceBusyError(this.#parts.name)
    if (!this.#memory.input(input))
      throw new BodyTooLargeError('the bytes that guest and host may exchange in a call (blockLimit)')
    this.#isRunning = true
    this.#budget?.begin()
    this.#contexts?.begin(caller)
    this.#http?.begin(caller)
    this.#streams?.begin(joinBytes(input))
    this.#log.begin(caller.log, exportName)
    const { pauses } = this.#parts
    if (pause && pauses) return this.#answerInPieces(exportName, run, pauses, pause)
    if (this.#isAsync) return this.#answerLater(exportName, run)
    try {
      return this.#answerReturned(exportName, run())
    } catch (thrown) {
      return this.#answerThrown(exportName, thrown)
    } finally {
      this.#end()
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const wasi of this.#wasis) wasi.close()
    if (this.#isRunning) return
    this.#isRunning = true
    this.#leave(this.#isWhole)
  }

  async #answerInPieces(
    exportName: string,
    run: GuestFunction,
    pauses: Pauses,
    pause: Pause,
  ): Promise<Uint8Array> {
    pauses.begin(pause)
    try {
      return await this.#answerLater(exportName, pauses.promising(exportName, run))
    } finally {
      pauses.end()
    }
  }

  async #answerLater(exportName: string, run: GuestFunction): Promise<Uint8Array> {
    try {
      return this.#answerReturned(exportName, await run())
    } catch (thrown) {
      return this.#answerThrown(exportName, thrown)
    } finally {
      this.#end()
    }
  }

  #answerReturned(exportName: string, returned: unknown): Uint8Array {
    if (returned === 0 || returned === undefined) return this.#answer(exportName, 0)
    return this.#answer(exportName, returnCode(returned, this.#parts.linked.exports[exportName]))
  }

  /** Returns the output, or throws the error. As in Extism, an error takes precedence over an output. */
  #answer(exportName: string, code: number, how = 'returned'): Uint8Array {
    const memory = this.#memory
    if (memory.errorLength() > 0) {
      this.#checkLength(exportName, memory.errorLength())
      throw new GuestError(memory.error())
    }
    if (code !== 0) {
      const what = this.#streams ? 'The program' : `The guest function "${exportName}"`
      throw new GuestError(`${what} ${how} ${code}`)
    }
    if (this.#streams && memory.outputLength() === 0) return this.#printed(exportName, this.#streams)
    this.#checkLength(exportName, memory.outputLength())
    if (!this.#parts.leavesOutput) return memory.output()
    this.#isOutputLeft = true
    return memory.outputView()
  }

  /** Answers for a guest that threw. As in Extism, the status of a guest that exits is its return code. */
  #answerThrown(exportName: string, thrown: unknown): Uint8Array {
    if (!(thrown instanceof ProcExit)) throw this.#toCallError(thrown, exportName)
    this.#hasExited = true
    return this.#answer(exportName, thrown.code, 'exited with status')
  }

  /** Printed text is the output of a program that set no output. */
  #printed(exportName: string, streams: ProgramStreams): Uint8Array {
    this.#checkLength(exportName, streams.printedLength)
    return streams.takePrinted()
  }

  #end(): void {
    if (this.#wasis.length > 0) this.#flush()
    this.#log.end()
    this.#http?.end()
    this.#contexts?.end()
    if (this.#isOutputLeft) this.#isOutputLeft = false
    else this.#memory.reset()
    this.#isRunning = false
  }

  /** A separate function, so that V8 inlines the common path: 4% of the time of a small call. */
  #flush(): void {
    this.#streams?.end()
    for (const wasi of this.#wasis) wasi.flush()
  }

  #find(exportName: string): GuestFunction {
    const { name, linked, suspending, functions, streams } = this.#parts
    const found = linked.exports[exportName]
    if (typeof found !== 'function')
      throw new FunctionUnknownError(name, `it has no function "${exportName}"`)
    if (streams && exportName !== START)
      throw new FunctionUnknownError(name, `it was opened to run ${START}, not to call "${exportName}"`)
    const run = suspending ? suspending.promising(found as GuestFunction) : (found as GuestFunction)
    functions.set(exportName, run)
    return run
  }

  #checkLength(exportName: string, length: number): void {
    const { outputLimit } = this.#parts
    if (length > outputLimit) throw new OutputTooLargeError(exportName, length, outputLimit)
  }

  /** Errors of wasm-serve pass unchanged. All others become a trap or a host function's error, with the guest's stack only. */
  #toCallError(thrown: unknown, exportName: string): unknown {
    if (thrown instanceof GuestError || thrown instanceof OutputTooLargeError) return thrown
    this.#isWhole = false
    if (this.#budget?.isSpent)
      return new BudgetExceededError(exportName, this.#budget.used, { cause: thrown })
    return interruptionError(thrown, exportName, this.#hostError(exportName))
  }

  /** The error of the call, if a host function has set one. */
  #hostError(exportName: string): string | undefined {
    const length = this.#contexts?.hasError ? this.#memory.errorLength() : 0
    this.#checkLength(exportName, length)
    return length > 0 ? this.#memory.error() : undefined
  }
}
