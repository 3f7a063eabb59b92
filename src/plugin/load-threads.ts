import { setImmediate as nextTurn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type CallFailure, fromFailure } from '../errors/call-failure.ts'
import { PluginLoadFailedError } from '../errors/errors.ts'
import type { ProcessTypes } from '../module/limits.ts'
import type { Log } from '../observe/log/guest-log.ts'
import { unlessAborted } from '../platform/async-work.ts'
import { workerFile } from '../platform/packages.ts'
import { labelThread, mayStart, terminateOrWriteOff, trackThread } from '../platform/stuck-threads.ts'
import {
  type Admit,
  type LoadedModule,
  type ModuleJob,
  type PackedFacts,
  unpackFacts,
} from './load-module.ts'

/** What a thread is asked for. */
export interface LoadRequest {
  readonly bytes: Uint8Array
  readonly job: ModuleJob
}

/** What a thread is sent. */
export type ToLoadThread = LoadRequest | 'admitted'

/** What a thread says when it is done. */
type LoadAnswer = { readonly loaded: PostedModule } | { readonly failure: CallFailure }

/** To take in as many objects as there are exports at once would hold the event loop for half a second. */
export type PostedModule = Omit<LoadedModule, 'facts'> & { readonly facts: PackedFacts }

/** What a thread says: what it is going to compile, and waits; or that it is done. */
export type FromLoadThread = { readonly types: ProcessTypes } | LoadAnswer

/** How a module is loaded in a thread. */
export interface LoadSurroundings {
  /** As for `loadModule`. */
  readonly admit?: Admit | undefined
  /** SHA-256 of the bytes, in hex: while threads that loaded the same are stuck, no other is given it. Default: any. */
  readonly digest?: string | undefined
  /** Ends it, with its thread. */
  readonly signal?: AbortSignal | undefined
  /** Told of a thread that cannot be ended. Default: nobody. */
  readonly log?: Log | undefined
  /** How long it may take from when its turn has come. Default: 60,000. */
  readonly limitMs?: number | undefined
}

/** Threads that load at a time: one that takes long holds up no other, and calls have the other cores. */
const MOST = 2

/** A module of 27 MB takes 3 s on one core of a fast machine, in its two forms. */
const LIMIT_MS = 60_000

/** How long a thread waits for more to load. A folder of plug-ins is loaded by one. */
const IDLE_MS = 2_000

/** Copied at a time: some 0.5 ms. */
const SLICE_BYTES = 1_048_576

/**
 * `loadModule` in a thread: nothing of it holds the event loop. At most two are loaded at a time; others wait for their
 * turn.
 *
 * @param bytes - Are copied: they may be used meanwhile.
 * @throws what `loadModule` throws; {@link ThreadsStuckError} if threads that loaded the same are stuck;
 * {@link PluginLoadFailedError} if it takes too long, or its thread has ended; the reason of the signal.
 */
export async function loadInThread(
  bytes: Uint8Array,
  job: ModuleJob,
  { admit = none, digest, signal, log = SILENT, limitMs = LIMIT_MS }: LoadSurroundings = {},
): Promise<LoadedModule> {
  if (digest !== undefined) await unlessAborted(mayStart({ digest }), signal)
  await enter(signal)
  try {
    const own = await copyInSlices(bytes)
    signal?.throwIfAborted()
    const thread = idleThreads.pop() ?? new LoadThread()
    return await thread.run({ bytes: own, job }, { admit, digest, signal, log, limitMs })
  } finally {
    leave()
  }
}

const none = () => undefined
const SILENT: Log = { trace: none, debug: none, info: none, warn: none, error: none }

/** A copy of a large module at once would hold the event loop, too. */
async function copyInSlices(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(bytes.length)
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    if (at > 0) await nextTurn()
    copy.set(bytes.subarray(at, at + SLICE_BYTES), at)
  }
  return copy
}

/** Those that wait for their turn, in order. */
const waiting: (() => void)[] = []
let running = 0

/** Waits for a turn; who has had it leaves. */
async function enter(signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  if (running < MOST) {
    running++
    return
  }
  let begin: () => void = none
  const turn = new Promise<void>((resolve) => {
    begin = resolve
  })
  waiting.push(begin)
  try {
    await unlessAborted(turn, signal)
  } catch (error) {
    const at = waiting.indexOf(begin)
    if (at >= 0) waiting.splice(at, 1)
    else leave() // its turn came at the same time
    throw error
  }
}

function leave(): void {
  const next = waiting.shift()
  if (next)
    next() // it has our place
  else running--
}

/** Threads that wait for something to load. */
const idleThreads: LoadThread[] = []

class LoadThread {
  readonly #worker: Worker
  #timer: NodeJS.Timeout | undefined
  #ended: Error | undefined
  #onEnd: ((reason: Error) => void) | undefined

  constructor() {
    this.#worker = new Worker(workerFile('load-thread'), {
      name: 'wasm-serve load',
      // Nothing of what the process was told to load first.
      execArgv: [],
      env: {},
    })
    trackThread(this.#worker)
    this.#worker.on('error', (error: Error) => this.#end(error))
    this.#worker.once('exit', (code) => this.#end(new Error(`its thread ended with exit code ${code}`)))
  }

  /** Ends the thread if it does not answer. */
  async run(request: LoadRequest, options: RunOptions): Promise<LoadedModule> {
    clearTimeout(this.#timer)
    this.#worker.ref()
    labelThread(this.#worker, { plugin: request.job.name, digest: options.digest })
    const answer = await this.#ask(request, options).catch((error: unknown) => {
      void terminateOrWriteOff(this.#worker, options.log) // whoever waits need not wait for that
      throw error
    })
    this.#rest()
    if ('failure' in answer) throw fromFailure(answer.failure)
    return { ...answer.loaded, facts: await unpackFacts(answer.loaded.facts) }
  }

  async #ask(request: LoadRequest, { admit, signal, limitMs }: RunOptions): Promise<LoadAnswer> {
    const { name } = request.job
    let timer: NodeJS.Timeout | undefined
    let take: (message: FromLoadThread) => void = none
    try {
      const answer = new Promise<LoadAnswer>((resolve, reject) => {
        const fail = (reason: string, cause?: Error) =>
          reject(new PluginLoadFailedError(name, reason, { cause }))
        take = (message) => {
          if (!('types' in message)) return resolve(message)
          void this.#admit(message.types, admit).catch(reject)
        }
        this.#onEnd = (reason) => fail(reason.message, reason)
        if (this.#ended) return this.#onEnd(this.#ended)
        timer = setTimeout(() => fail(`it was not compiled after ${limitMs} ms`), limitMs)
        this.#worker.on('message', take)
        this.#worker.postMessage(request, [request.bytes.buffer as ArrayBuffer])
      })
      return await unlessAborted(answer, signal)
    } finally {
      clearTimeout(timer)
      this.#onEnd = undefined
      this.#worker.off('message', take)
    }
  }

  async #admit(types: ProcessTypes, admit: Admit): Promise<void> {
    await admit(types)
    this.#worker.postMessage('admitted' satisfies ToLoadThread)
  }

  #rest(): void {
    if (this.#ended) return
    this.#worker.unref()
    this.#timer = setTimeout(() => {
      this.#leave()
      void this.#worker.terminate()
    }, IDLE_MS).unref()
    idleThreads.push(this)
  }

  #leave(): void {
    const at = idleThreads.indexOf(this)
    if (at >= 0) idleThreads.splice(at, 1)
  }

  #end(reason: Error): void {
    this.#ended ??= reason
    this.#leave()
    this.#onEnd?.(this.#ended)
  }
}

interface RunOptions extends LoadSurroundings {
  readonly admit: Admit
  readonly log: Log
  readonly limitMs: number
}
