import type { CallContext, Plugin as SdkPlugin } from '@extism/extism'
import {
  GuestError,
  GuestExitError,
  GuestTrapError,
  InstanceStartError,
  OutputTooLargeError,
} from '../errors.ts'
import { GuestLog } from '../guest-log.ts'
import type { Plugin } from '../plugin.ts'
import { checkImports, EXTISM_ENV } from './imports.ts'
import type { Caller, Instance, InstanceSettings, Runtime } from './runtime.ts'
import { describeTrap } from './trap.ts'

const { createPlugin } = await importQuietly()

/** Extism's own JavaScript SDK: the reference. It runs every call asynchronously, and so must never be given two at once. */
export const sdk: Runtime = { name: 'sdk', open: openSdkInstance }

async function openSdkInstance(plugin: Plugin, settings: InstanceSettings): Promise<Instance> {
  checkImports(plugin, settings)
  const log = new GuestLog(settings.log, { plugin: plugin.name })
  const output = new Output()
  try {
    const guest = await createPlugin(plugin.module, {
      useWasi: settings.wasi !== undefined,
      memory: { maxVarBytes: settings.varMax },
      config: Object.assign(Object.create(null), settings.config), // the SDK asks it with `in`
      logLevel: 'trace',
      logger: consoleOf(log),
      functions: { [EXTISM_ENV]: { output_set: output.set } },
    })
    const { exports } = await guest.getInstance()
    return new SdkInstance(guest, exports, log, output, settings.outputLimit)
  } catch (error) {
    throw new InstanceStartError(plugin.name, describeTrap(error).reason, { cause: error })
  }
}

class SdkInstance implements Instance {
  readonly #guest: SdkPlugin
  readonly #memory: WebAssembly.Memory | undefined
  readonly #log: GuestLog
  readonly #output: Output
  readonly #outputLimit: number

  constructor(
    guest: SdkPlugin,
    { memory }: WebAssembly.Exports,
    log: GuestLog,
    output: Output,
    outputLimit: number,
  ) {
    this.#guest = guest
    this.#memory = memory instanceof WebAssembly.Memory ? memory : undefined
    this.#log = log
    this.#output = output
    this.#outputLimit = outputLimit
  }

  /** What the SDK holds for the guest cannot be seen. */
  get memoryBytes(): number {
    return this.#memory?.buffer.byteLength ?? 0
  }

  async call(exportName: string, input: Uint8Array, { log }: Caller): Promise<Uint8Array> {
    this.#log.begin(log)
    this.#output.clear()
    try {
      // A copy, because the SDK lets the guest write into an array that fills its buffer.
      await this.#guest.call(exportName, new Uint8Array(input))
    } catch (thrown) {
      throw toCallError(thrown, exportName)
    } finally {
      this.#log.end()
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
 * What the guest named with `output_set`. The SDK's own `output_set` ignores the length and the offset within a
 * block, so that a guest which allocates more than it writes would answer with what else is in the block.
 */
class Output {
  #bytes: Uint8Array = EMPTY

  clear(): void {
    this.#bytes = EMPTY
  }

  readonly set = (context: CallContext, address: bigint, length: bigint): void => {
    const block = context.read(address)?.bytes()
    const start = BigInt.asUintN(48, address) // above it stands the number of the block
    const end = start + BigInt.asUintN(64, length)
    if (!block || end > block.length) throw new RangeError('output_set: outside the block')
    this.#bytes = block.subarray(Number(start), Number(end))
  }

  /** The bytes as they are now: the guest may have written them after it named them. */
  bytes(): Uint8Array {
    return this.#bytes
  }
}

const EMPTY = new Uint8Array()

const GUEST_ERROR = 'Plugin-originated error: '

function toCallError(thrown: unknown, exportName: string): Error {
  if (thrown instanceof Error && thrown.message.startsWith(GUEST_ERROR)) {
    return new GuestError(thrown.message.slice(GUEST_ERROR.length))
  }
  // node:wasi ends a program by throwing a bare symbol.
  if (typeof thrown === 'symbol') return new GuestExitError(exportName)
  return new GuestTrapError(exportName, { cause: describeTrap(thrown) })
}

/** The SDK logs to something like a console. */
function consoleOf(log: GuestLog): Console {
  const levels = ['trace', 'debug', 'info', 'warn', 'error'] as const
  const methods = levels.map((level) => [level, (line: unknown) => log.write(level, String(line))])
  return { ...console, ...Object.fromEntries(methods) }
}

/** The SDK loads node:wasi, which prints that it is experimental: no news that everybody who starts a server needs. */
async function importQuietly() {
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return await import('@extism/extism')
  } finally {
    process.emitWarning = emitWarning
  }
}
