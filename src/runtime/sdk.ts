import type { ExtismPluginOptions, CallContext as SdkCallContext, Plugin as SdkPlugin } from '@extism/extism'
import {
  GuestError,
  GuestExitError,
  InstanceBusyError,
  InstanceStartError,
  OutputTooLargeError,
  RuntimeUnfitError,
  VariablesFullError,
} from '../errors/errors.ts'
import { describeTrap, interruptionError, type NamedHostFunction } from '../guest/host-functions.ts'
import { HTTP_NOT_ALLOWED, httpFailure } from '../guest/outbound/guest-http.ts'
import { initialisersOf } from '../module/entry-points.ts'
import { GuestLog } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
import { type ByteSource, joinBytes } from '../platform/chunks.ts'
import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import { suspending } from '../platform/missing-types.ts'
import { loadQuietly } from '../platform/node-workarounds.ts'
import { explainLimit } from '../platform/system-errors.ts'
import { EXTISM_ENV } from '../plugin/host-imports.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import { checkResponse, type HttpErrors } from './kernel-host.ts'
import { isCircular, type LinkPlan, MAIN, planLinks } from './link-plan.ts'
import { type Instance, type InstanceSettings, type Runtime, startGuest } from './runtime.ts'

const { createPlugin } = await loadQuietly(() => import('@extism/extism'))

/** Extism's own JavaScript SDK, as the reference. Its calls are asynchronous and must not overlap. */
export const sdk: Runtime = { name: 'sdk', open: openSdkInstance }

async function openSdkInstance(plugin: CompiledPlugin, settings: InstanceSettings): Promise<Instance> {
  if (settings.budget !== undefined) throw new RuntimeUnfitError(plugin.name, 'sdk', 'budget of work')
  const plan = planLinks(plugin, settings)
  refuseUnfit(plugin, plan)
  const log = new GuestLog(settings.log, { plugin: plugin.name }, settings.logsAtOnce, settings)
  const { httpErrors = 'trap' } = settings
  const output = new Output()
  const hostErrors = new HostErrors()
  try {
    reserveMemory()
    const guest = await createPlugin(modulesOf(plugin), {
      useWasi: settings.wasi !== undefined,
      memory: { maxVarBytes: settings.varMax, maxPages: settings.blockPages },
      config: Object.assign(Object.create(null), settings.config), // the SDK queries it with `in`
      logLevel: 'trace',
      logger: consoleOf(log),
      functions: {
        ...sdkFunctions(plan.hostFunctions, hostErrors),
        [EXTISM_ENV]: { output_set: output.set, ...(!suspending && refusedHttp(log, httpErrors)) },
      },
      ...(suspending && refusedFetch(log, httpErrors)),
    })
    const { exports } = await guest.getInstance()
    construct(exports)
    return new SdkInstance(plugin.name, guest, exports, log, output, hostErrors, settings)
  } catch (error) {
    const reason = explainLimit(error) ?? describeTrap(error).reason
    throw new InstanceStartError(plugin.name, reason, { cause: error })
  }
}

/**
 * Fails here if V8 has no addresses for a memory. The SDK touches `Response` before its first memory, and Node.js 20
 * then reserves one for its HTTP parser: a failure there is a rejection that nobody handles, and ends the process.
 */
function reserveMemory(): void {
  new WebAssembly.Memory({ initial: 0 })
}

/** The SDK calls constructors only of a module with another initializer; Extism's other SDKs always do. */
function construct(exports: WebAssembly.Exports): void {
  const [first] = initialisersOf(new Set(Object.keys(exports)), true)
  if (first === '__wasm_call_ctors') startGuest(exports, [first])
}

/** Refuses what the SDK links wrong without an error. @throws {@link RuntimeUnfitError} */
function refuseUnfit({ name, linked }: CompiledPlugin, { groups, hostFunctions }: LinkPlan): void {
  const names = new Set([MAIN, ...linked.map((module) => module.name)])
  // It looks for all imports of a namespace in the module of that name, if there is one.
  const mixed = hostFunctions.find(({ namespace }) => names.has(namespace))
  if (mixed) {
    const wanted = `host function ${mixed.label} beside a module of the same name`
    throw new RuntimeUnfitError(name, 'sdk', wanted)
  }
  const circle = groups.find(({ linkOrder }) => linkOrder.some(isCircular))
  if (circle) {
    const names = circle.startOrder.map((module) => `"${module.name}"`).join(', ')
    throw new RuntimeUnfitError(name, 'sdk', `way to link modules that import from each other (${names})`)
  }
}

function modulesOf({ module, linked }: CompiledPlugin): Parameters<typeof createPlugin>[0] {
  return { wasm: [...linked.map(({ name, module }) => ({ name, module })), { name: MAIN, module }] }
}

type SdkFunctions = NonNullable<ExtismPluginOptions['functions']>
type SdkFunction = SdkFunctions[string][string]

/** Only the imported functions: on a Node without JSPI the SDK rejects any async function, even an unused one. */
function sdkFunctions(hostFunctions: readonly NamedHostFunction[], errors: HostErrors): SdkFunctions {
  const functions: SdkFunctions = {}
  for (const { namespace, name, isAsync, call } of hostFunctions) {
    functions[namespace] = { ...functions[namespace], [name]: errors.watched(call, isAsync !== false) }
  }
  return functions
}

/** The error that a host function has set in a call: the SDK discards it if one throws. */
class HostErrors {
  last: string | undefined
  #context: SdkCallContext | undefined

  /**
   * The same function, declared async if it is: the SDK recognizes async functions by their declaration.
   *
   * @param run - The SDK's context is another class than the kernel's, with the same methods.
   */
  watched(run: (context: never, ...args: unknown[]) => unknown, isAsync: boolean): SdkFunction {
    if (isAsync) {
      return async (context, ...args) => {
        this.#watch(context)
        return run(context as never, ...args)
      }
    }
    return (context, ...args) => {
      this.#watch(context)
      return run(context as never, ...args)
    }
  }

  /** An instance has one context for all its calls. */
  #watch(context: SdkCallContext): void {
    if (this.#context === context) return
    this.#context = context
    const setError = context.setError.bind(context)
    context.setError = (error) => {
      this.last = undefined
      setError(error)
      this.last = error instanceof Error ? error.message : (error ?? undefined)
    }
  }
}

/**
 * Refuses all hosts. If guests cannot wait, the SDK's own functions return nothing at all: these behave like the
 * kernel's.
 */
function refusedHttp(log: GuestLog, errors: HttpErrors): SdkFunctions[string] {
  return {
    http_request(context: SdkCallContext): bigint {
      const response = httpFailure(HTTP_NOT_ALLOWED)
      checkResponse(response, log, errors)
      return context.store(response.body)
    },
    http_status_code: () => 0,
    http_headers: () => 0n,
  }
}

/**
 * If guests can wait, the SDK replaces the functions of {@link refusedHttp} by its own, but `fetch` is defined here. A
 * request that is not JSON, or has no URL, ends the call earlier.
 */
function refusedFetch(
  log: GuestLog,
  errors: HttpErrors,
): Pick<ExtismPluginOptions, 'allowedHosts' | 'fetch'> {
  return {
    allowedHosts: ['*', '.*', ''], // names, names that start with a dot, the empty name
    async fetch() {
      checkResponse(httpFailure(HTTP_NOT_ALLOWED), log, errors)
      // A `Response` cannot be made with this status.
      return Object.defineProperty(new Response(HTTP_NOT_ALLOWED), 'status', { value: 0 })
    },
  }
}

class SdkInstance implements Instance {
  readonly #name: string
  readonly #guest: SdkPlugin
  readonly #memory: WebAssembly.Memory | undefined
  readonly #log: GuestLog
  readonly #output: Output
  readonly #hostErrors: HostErrors
  readonly #outputLimit: number
  readonly #varMax: number
  #isRunning = false

  constructor(
    name: string,
    guest: SdkPlugin,
    { memory }: WebAssembly.Exports,
    log: GuestLog,
    output: Output,
    hostErrors: HostErrors,
    { outputLimit, varMax }: Pick<InstanceSettings, 'outputLimit' | 'varMax'>,
  ) {
    this.#name = name
    this.#guest = guest
    this.#memory = memory instanceof WebAssembly.Memory ? memory : undefined
    this.#log = log
    this.#output = output
    this.#hostErrors = hostErrors
    this.#outputLimit = outputLimit
    this.#varMax = varMax
  }

  /** Excludes the memory that the SDK holds for the guest, and that of linked modules: neither is accessible. */
  get memoryBytes(): number {
    return this.#memory?.buffer.byteLength ?? 0
  }

  readonly kernelBytes = 0
  readonly hasExited = false // a call in which it exits fails

  async call(exportName: string, input: ByteSource, caller: Caller): Promise<Uint8Array> {
    if (this.#isRunning) throw new InstanceBusyError(this.#name)
    this.#isRunning = true
    this.#log.begin(caller.log, exportName)
    this.#output.clear()
    this.#hostErrors.last = undefined
    try {
      // A copy, because the SDK lets the guest write into an array that spans its whole buffer.
      await this.#guest.call(exportName, new Uint8Array(joinBytes(input)), caller.host ?? caller)
    } catch (thrown) {
      throw toCallError(thrown, exportName, this.#hostErrors.last, this.#varMax)
    } finally {
      this.#log.end()
      this.#isRunning = false
    }
    const bytes = this.#output.bytes()
    if (bytes.length <= this.#outputLimit) return bytes
    throw new OutputTooLargeError(exportName, bytes.length, this.#outputLimit)
  }

  close(): Promise<void> {
    return this.#guest.close()
  }
}

/**
 * The output that the guest set with `output_set`. The SDK's own `output_set` ignores the length and the offset within a
 * block, so a guest that allocates more than it writes would reveal the rest of the block.
 */
class Output {
  #bytes: Uint8Array = NO_BYTES

  clear(): void {
    this.#bytes = NO_BYTES
  }

  readonly set = (context: SdkCallContext, address: bigint, length: bigint): void => {
    const block = context.read(address)?.bytes()
    const start = BigInt.asUintN(48, address) // the upper bits are the number of the block
    const end = start + BigInt.asUintN(64, length)
    if (!block || end > block.length) throw new RangeError('output_set: outside the block')
    this.#bytes = block.subarray(Number(start), Number(end))
  }

  /** The current bytes: the guest may have written them after it set the output. */
  bytes(): Uint8Array {
    return this.#bytes
  }
}

const NO_BYTES = new Uint8Array()

const GUEST_ERROR = 'Plugin-originated error: '

/** How the SDK reports a variable beyond the limit. */
const VARS_FULL = `${GUEST_ERROR}var memory limit exceeded: `

function toCallError(
  thrown: unknown,
  exportName: string,
  hostError: string | undefined,
  varMax: number,
): Error {
  if (thrown instanceof Error && thrown.message.startsWith(VARS_FULL))
    return new VariablesFullError(exportName, varMax, { cause: describeTrap(thrown) })
  if (thrown instanceof Error && thrown.message.startsWith(GUEST_ERROR)) {
    return new GuestError(thrown.message.slice(GUEST_ERROR.length).slice(0, GUEST_LIMITS.errorBytes))
  }
  // node:wasi throws a symbol, and hides the exit status.
  if (typeof thrown === 'symbol') return new GuestExitError(exportName)
  return interruptionError(thrown, exportName, hostError)
}

/** The SDK expects a console-like logger. */
function consoleOf(log: GuestLog): Console {
  const levels = ['trace', 'debug', 'info', 'warn', 'error'] as const
  const methods = levels.map((level) => [level, (line: unknown) => log.write(level, String(line))])
  return { ...console, ...Object.fromEntries(methods) }
}
