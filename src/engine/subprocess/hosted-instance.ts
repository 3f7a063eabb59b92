import { toFailure } from '../../errors/call-failure.ts'
import type { GuestService, ServiceLink } from '../../guest/services/service.ts'
import { alreadyCapped } from '../../module/memory-cap.ts'
import { readModule } from '../../module/module.ts'
import type { GuestLogLevel, Log } from '../../observe/log/guest-log.ts'
import type { Caller } from '../../observe/observe.ts'
import { compileForms, factsOf } from '../../plugin/load-module.ts'
import type { UncompiledModule } from '../../plugin/plugin.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import type { InlineEngine } from '../inline.ts'
import { openGuest } from '../workers/guest-options.ts'
import { unwrapHostAnswer } from '../workers/host-bridge.ts'
import type { HostAnswer, InstantiablePlugin } from '../workers/protocol.ts'
import { FROM_CHILD, type Frame, readHostAnswer, writeFrame } from './frames.ts'
import { type ProcessStart, pack, type UncompiledPlugin, unpack } from './packed.ts'

const NO_BYTES = new Uint8Array()

/** The successive instances of one route in a process. Writes their answers, logs and stats. */
export class HostedInstance {
  readonly #number: number
  readonly #caller: Caller
  /** The server knows which requests it does not count toward the deadline. */
  readonly #link: ServiceLink = { ask: (service, operation, args) => this.#ask(service, operation, args) }
  #engine: InlineEngine | undefined
  #call = 0
  /** The value of `changes` at the last report of stats. */
  #reportedChanges = 0

  /** @param number - Its id on the server. */
  constructor(number: number) {
    this.#number = number
    this.#caller = { log: this.#log() }
  }

  /** Compiles the plug-in, opens the first instance, and reports the result. */
  async open(start: ProcessStart, runtime: Runtime): Promise<void> {
    try {
      const plugin = await compile(start.plugin)
      const { engine } = await openGuest(start, plugin, runtime, this.#link, this.#caller.log)
      this.#engine = engine
      this.#reportStats()
      this.#write(FROM_CHILD.started, 0, NO_BYTES)
    } catch (error) {
      this.#write(FROM_CHILD.startFailed, 0, pack(toFailure(error)))
    }
  }

  /** Runs a call and writes its answer. @returns a promise if that takes more than one turn. */
  call({ call, nameBytes, payload }: Frame): Promise<void> | undefined {
    this.#call = call
    const since = performance.now()
    try {
      const exportName = utf8.decode(payload.subarray(0, nameBytes))
      if (!this.#engine) throw new Error('no instance is open')
      const output = this.#engine.call(exportName, payload.subarray(nameBytes), this.#caller)
      if (!(output instanceof Uint8Array)) return this.#wait(output, since)
      this.#answer(performance.now() - since, output)
    } catch (error) {
      this.#fail(performance.now() - since, error)
    }
    return undefined
  }

  close(): void {
    void this.#engine?.close()
  }

  async #wait(output: PromiseLike<Uint8Array>, since: number): Promise<void> {
    try {
      const bytes = await output
      this.#answer(performance.now() - since, bytes)
    } catch (error) {
      this.#fail(performance.now() - since, error)
    }
  }

  #answer(ms: number, output: Uint8Array): void {
    this.#reportStats()
    this.#write(FROM_CHILD.output, ms, output)
    this.#call = 0
  }

  #fail(ms: number, error: unknown): void {
    this.#reportStats()
    this.#write(FROM_CHILD.failure, ms, pack(toFailure(error)))
    this.#call = 0
  }

  /** Runs before each answer, so that stats read after an answer include it. */
  #reportStats(): void {
    if (!this.#engine || this.#reportedChanges === this.#engine.changes) return
    this.#reportedChanges = this.#engine.changes
    const { guestBytes, kernelBytes, recycled, restarted, droppedLines } = this.#engine.stats
    const numbers = Float64Array.of(guestBytes, kernelBytes, recycled, restarted, droppedLines)
    this.#write(FROM_CHILD.stats, 0, new Uint8Array(numbers.buffer))
  }

  #write(kind: number, ms: number, payload: Uint8Array): void {
    writeFrame({ kind, instance: this.#number, call: this.#call, ms }, payload)
  }

  #log(): Log {
    const line = (level: GuestLogLevel) => (fields: object, message: string) =>
      this.#write(FROM_CHILD.log, 0, pack([level, plainFields(fields), message]))
    return {
      trace: line('trace'),
      debug: line('debug'),
      info: line('info'),
      warn: line('warn'),
      error: line('error'),
    }
  }

  /** Waits without a limit: the server ends the process at the deadline. */
  #ask({ name: service }: GuestService, operation: string, args: readonly unknown[]): unknown {
    this.#write(FROM_CHILD.ask, 0, pack({ service, operation, args }))
    return unwrapHostAnswer(unpack(readHostAnswer()) as HostAnswer)
  }
}

/** Converts errors to their messages. */
function plainFields(fields: object): object {
  const { err, ...plain } = fields as { readonly err?: unknown }
  return err instanceof Error ? { ...plain, reason: err.message } : plain
}

/** The only place where these modules are compiled: the server does not compile them. */
async function compile({ name, digest, modules }: UncompiledPlugin): Promise<InstantiablePlugin> {
  const compiled = await Promise.all(modules.map(compileOne))
  const main = compiled.find((module) => module.name === 'main')
  if (!main) throw new Error(`plug-in ${name} has no main module`)
  return { ...main, name, digest, linked: compiled.filter((module) => module !== main) }
}

async function compileOne({ name, label, bytes, resettable, merges }: UncompiledModule) {
  // Already validated; the memory is this process's.
  const view = readModule(bytes, { limits: 'none', allowGc: true, readsCode: resettable || merges }, label)
  const capped = alreadyCapped(view)
  const { module, ...others } = await compileForms(capped, {
    needsModule: true,
    isResettable: resettable,
    merges,
  })
  if (!module) throw new Error(`module ${name} was not compiled`)
  return { ...factsOf(capped), ...others, name, module }
}

const utf8 = new TextDecoder()
