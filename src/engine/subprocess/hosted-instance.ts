import { toFailure } from '../../errors/call-failure.ts'
import { loadFunctions } from '../../guest/functions-module.ts'
import { kvImports, withKv } from '../../guest/store/kv-functions.ts'
import { alreadyCapped } from '../../module/memory-cap.ts'
import { readModule } from '../../module/module.ts'
import type { GuestLogLevel, Log } from '../../observe/log/guest-log.ts'
import type { Caller } from '../../observe/observe.ts'
import { compileModule, compileRenewable, factsOf } from '../../plugin/load-module.ts'
import type { CompiledPlugin, UncompiledModule } from '../../plugin/plugin.ts'
import type { InstanceSettings, Runtime } from '../../runtime/runtime.ts'
import { type InlineEngine, openInline } from '../inline.ts'
import { bridgedHttp, bridgedKv, bridgedVars } from '../workers/bridged-services.ts'
import { type HostAsker, readAnswer } from '../workers/host-client.ts'
import type { HostAnswer, InstantiablePlugin } from '../workers/protocol.ts'
import { FROM_CHILD, type Frame, readHostAnswer, writeFrame } from './frames.ts'
import { type ProcessStart, pack, type UncompiledPlugin, unpack } from './packed.ts'

const NOTHING = new Uint8Array()

/** The instances of one route in a process, one after the other, and what they tell. */
export class HostedInstance {
  readonly #number: number
  readonly #caller: Caller
  #engine: InlineEngine | undefined
  #call = 0
  /** The changes of the engine that were told. */
  #told = 0

  /** @param number - By which the server knows it. */
  constructor(number: number) {
    this.#number = number
    this.#caller = { log: this.#log() }
  }

  /** Compiles the plug-in and opens the first instance. Tells how that went. */
  async open(start: ProcessStart, runtime: Runtime): Promise<void> {
    try {
      const plugin = await compile(start.plugin)
      const settings = await this.#settingsOf(plugin, start)
      const engine = openInline({
        plugin: plugin as CompiledPlugin,
        runtime,
        settings,
        maxQueue: 1,
        ...start.isolation,
      })
      await engine.ready
      this.#engine = engine
      this.#tellStats()
      this.#write(FROM_CHILD.started, 0, NOTHING)
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
      if (output instanceof Promise) return this.#wait(output, since)
      this.#answer(performance.now() - since, output)
    } catch (error) {
      this.#fail(performance.now() - since, error)
    }
    return undefined
  }

  close(): void {
    void this.#engine?.close()
  }

  async #wait(output: Promise<Uint8Array>, since: number): Promise<void> {
    try {
      const bytes = await output
      this.#answer(performance.now() - since, bytes)
    } catch (error) {
      this.#fail(performance.now() - since, error)
    }
  }

  #answer(ms: number, output: Uint8Array): void {
    this.#tellStats()
    this.#write(FROM_CHILD.output, ms, output)
    this.#call = 0
  }

  #fail(ms: number, error: unknown): void {
    this.#tellStats()
    this.#write(FROM_CHILD.failure, ms, pack(toFailure(error)))
    this.#call = 0
  }

  /** Before the answer: who has that may ask for the stats. */
  #tellStats(): void {
    if (!this.#engine || this.#told === this.#engine.changes) return
    this.#told = this.#engine.changes
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

  async #settingsOf(
    plugin: InstantiablePlugin,
    { settings, functions, hostParts }: ProcessStart,
  ): Promise<InstanceSettings> {
    const host: HostAsker = { ask: (operation, ...args) => this.#ask(operation, args) }
    const users = await loadFunctions(functions)
    return {
      ...settings,
      functions: hostParts.includes('kv') ? withKv(users, kvImports(plugin, users), bridgedKv(host)) : users,
      log: this.#caller.log,
      logsAtOnce: true,
      ...(hostParts.includes('http') && { http: bridgedHttp(host) }),
      ...(hostParts.includes('vars') && { vars: bridgedVars(host) }),
    }
  }

  /** Waits without a limit of its own: the server ends the process at the deadline. */
  #ask(operation: string, args: readonly unknown[]): unknown {
    this.#write(FROM_CHILD.ask, 0, pack({ operation, args }))
    return readAnswer(unpack(readHostAnswer()) as HostAnswer)
  }
}

/** An error among them becomes its message. */
function plainFields(fields: object): object {
  const { err, ...plain } = fields as { readonly err?: unknown }
  return err instanceof Error ? { ...plain, reason: err.message } : plain
}

/** Where the engine is: nobody else has looked at the modules with one. */
async function compile({ name, digest, modules }: UncompiledPlugin): Promise<InstantiablePlugin> {
  const compiled = await Promise.all(modules.map(compileOne))
  const main = compiled.find((module) => module.name === 'main')
  if (!main) throw new Error(`plug-in ${name} has no main module`)
  return { ...main, name, digest, linked: compiled.filter((module) => module !== main) }
}

async function compileOne({ name, label, bytes, renewable }: UncompiledModule) {
  // It was checked before, and costs this process.
  const view = readModule(bytes, { limits: 'none', allowGc: true, readsCode: renewable }, label)
  const capped = alreadyCapped(view)
  return {
    name,
    module: await compileModule(capped),
    ...factsOf(capped),
    renewable: renewable ? await compileRenewable(capped) : undefined,
  }
}

const utf8 = new TextDecoder()
