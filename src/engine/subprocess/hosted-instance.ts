import { toFailure } from '../../errors/call-failure.ts'
import type { GuestService, ServiceLink } from '../../guest/services/service.ts'
import { alreadyCapped } from '../../module/memory-cap.ts'
import { readModule } from '../../module/module.ts'
import type { ModuleView } from '../../module/module-view.ts'
import type { GuestLogLevel, Log } from '../../observe/log/guest-log.ts'
import type { Caller } from '../../observe/observe.ts'
import { compileForms, factsOf, loadWithChecks } from '../../plugin/load-module.ts'
import type { UncompiledModule } from '../../plugin/plugin.ts'
import { interruptRun, runWords } from '../../runtime/interrupts.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import type { InlineEngine } from '../inline.ts'
import { openGuest } from '../workers/guest-options.ts'
import { unwrapHostAnswer } from '../workers/host-bridge.ts'
import type { HostAnswer, InstantiablePlugin } from '../workers/protocol.ts'
import { FROM_CHILD, type Frame, readHostAnswer, writeFrame } from './frames.ts'
import { type ProcessStart, pack, type UncompiledPlugin, unpack } from './packed.ts'

/** The number of each run: one thread runs and interrupts them. */
const RUN = 1

/** The successive instances of one route in a process. Writes their answers, logs and stats. */
export class HostedInstance {
  readonly #number: number
  readonly #caller: Caller
  /** The server knows which requests it does not count toward the deadline. */
  readonly #link: ServiceLink = { ask: (service, operation, args) => this.#ask(service, operation, args) }
  #engine: InlineEngine | undefined
  #call = 0
  /** The last call to interrupt, which may not have begun. */
  #interrupted = 0
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
      const { plugin, isInterruptible } = await compile(start.plugin)
      const { engine } = await openGuest(start, plugin, runtime, this.#link, this.#caller.log)
      this.#engine = engine
      this.#reportStats()
      this.#write(FROM_CHILD.started, 0, Uint8Array.of(isInterruptible ? 1 : 0))
    } catch (error) {
      this.#write(FROM_CHILD.startFailed, 0, pack(toFailure(error)))
    }
  }

  /** Runs a call and writes its answer. @returns a promise if that takes more than one turn. */
  call({ call, nameBytes, payload }: Frame): Promise<void> | undefined {
    this.#call = call
    Atomics.store(runWords(), 0, RUN)
    this.#obeyInterrupt()
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

  /** Lets the guest of a call trap: now, or when it begins. */
  interrupt({ call }: Frame): void {
    this.#interrupted = call
    this.#obeyInterrupt()
  }

  close(): void {
    void this.#engine?.close()
  }

  #obeyInterrupt(): void {
    if (this.#call !== 0 && this.#call === this.#interrupted) interruptRun(runWords(), RUN)
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
    this.#end()
  }

  #fail(ms: number, error: unknown): void {
    this.#reportStats()
    this.#write(FROM_CHILD.failure, ms, pack(toFailure(error)))
    this.#end()
  }

  #end(): void {
    this.#call = 0
    Atomics.store(runWords(), 0, 0)
  }

  /** Runs before each answer, so that stats read after an answer include it. */
  #reportStats(): void {
    if (!this.#engine || this.#reportedChanges === this.#engine.changes) return
    this.#reportedChanges = this.#engine.changes
    const { guestBytes, kernelBytes, recycled, restarted, droppedLines, checks } = this.#engine.stats
    const numbers = Float64Array.of(guestBytes, kernelBytes, recycled, restarted, droppedLines, checks)
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
async function compile({ name, digest, modules }: UncompiledPlugin) {
  const compiled = await Promise.all(modules.map(compileOne))
  const main = compiled.find((module) => module.name === 'main')
  if (!main) throw new Error(`plug-in ${name} has no main module`)
  const linked = compiled.filter((module) => module !== main)
  const plugin: InstantiablePlugin = { ...main, name, digest, linked }
  return { plugin, isInterruptible: compiled.every((module) => module.isInterruptible) }
}

async function compileOne(source: UncompiledModule) {
  const { label, bytes, resettable, merges, interrupts } = source
  // Already validated; the memory is this process's.
  const readsCode = resettable || merges || interrupts
  const view = readModule(bytes, { limits: 'none', allowGc: true, readsCode }, label)
  const checked =
    interrupts && (await loadWithChecks(view, (rewritten) => compileView(rewritten, source, true)))
  return checked || compileView(view, source, false)
}

async function compileView(
  view: ModuleView,
  { name, resettable, merges }: UncompiledModule,
  isInterruptible: boolean,
) {
  const capped = alreadyCapped(view)
  const { module, ...others } = await compileForms(capped, {
    needsModule: true,
    isResettable: resettable,
    kernelMemory: merges ? 'own' : undefined,
  })
  if (!module) throw new Error(`module ${name} was not compiled`)
  return { ...factsOf(capped), ...others, name, module, isInterruptible }
}

const utf8 = new TextDecoder()
