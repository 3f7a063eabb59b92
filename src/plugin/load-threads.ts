import { setImmediate as nextTurn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type CallFailure, fromFailure } from '../errors/call-failure.ts'
import { PluginLoadFailedError } from '../errors/errors.ts'
import type { ProcessTypes } from '../module/limits.ts'
import type { Log } from '../observe/log/guest-log.ts'
import { unlessAborted } from '../platform/event-loop.ts'
import { workerFile } from '../platform/packages.ts'
import {
  labelThread,
  mayStart,
  type ThreadLabel,
  terminateOrWriteOff,
  trackThread,
} from '../platform/stuck-threads.ts'
import type { BuiltScript } from '../script/engine.ts'
import type { Script } from '../script/script.ts'
import type { Admit, LoadedModule, ModuleJob } from './load-module.ts'
import { type KnownLists, type PackedFacts, unpackFacts } from './module-facts.ts'
import type { ScanJob, ScannedFile } from './scan-file.ts'

/** A request to a thread. */
export interface LoadRequest {
  readonly bytes: Uint8Array
  readonly job: ModuleJob
}

/** Files to read. */
interface ScanRequest {
  readonly paths: readonly string[]
  readonly job: ScanJob
}

/** A script to build. */
export interface ScriptRequest {
  readonly script: Script
  /** Whether it is TypeScript. */
  readonly hasTypes: boolean
}

/** Messages to a thread. */
export type ToLoadThread = LoadRequest | ScanRequest | ScriptRequest | 'admitted'

/** The final answer of a thread. */
type LoadAnswer =
  | { readonly loaded: PostedModule }
  | { readonly scanned: readonly (ScannedFile<PackedFacts> | undefined)[] }
  | { readonly built: Partial<BuiltScript> }
  | { readonly failure: CallFailure }

/** Facts are packed: receiving an object per export would block the event loop for half a second. */
type PostedModule = Omit<LoadedModule, 'facts'> & { readonly facts: PackedFacts }

/** Messages of a thread: the types that it is about to compile, for which it awaits admission; or the final answer. */
export type FromLoadThread = { readonly types: ProcessTypes } | LoadAnswer

/** How a module is loaded in a thread. */
export interface LoadingContext {
  /** See `loadModule`. */
  readonly admit?: Admit | undefined
  /** SHA-256 of the bytes, in hex. No thread loads them while threads that loaded the same are stuck. Default: no check. */
  readonly digest?: string | undefined
  /** Aborts it by terminating its thread. */
  readonly signal?: AbortSignal | undefined
  /** Logs a thread that cannot be terminated. Default: no log. */
  readonly log?: Log | undefined
  /** Time limit from the start of its turn. Default: 60,000. */
  readonly limitMs?: number | undefined
}

/** Concurrent loading threads: a slow one does not delay others, and calls have the other cores. */
const MOST = 2

/** A module of 27 MB takes 3 s on one core of a fast machine, in both variants. */
const LIMIT_MS = 60_000

/** How long an idle thread waits for more modules. One thread loads a folder of plug-ins. */
const IDLE_MS = 10_000

/** Bytes per copy step: some 0.5 ms. */
const SLICE_BYTES = 1_048_576

/**
 * Runs `loadModule` in a thread, without blocking the event loop. At most two modules are loaded concurrently; others
 * wait for their turn.
 *
 * @param bytes - Copied, so they may be used meanwhile.
 * @throws the errors of `loadModule`; {@link ThreadsStuckError} if threads that loaded the same are stuck;
 * {@link PluginLoadFailedError} if it takes too long or its thread ends; the reason of the signal.
 */
export async function loadInThread(
  bytes: Uint8Array,
  job: ModuleJob,
  { admit = none, digest, signal, log = SILENT, limitMs = LIMIT_MS }: LoadingContext = {},
): Promise<LoadedModule> {
  if (digest !== undefined) await unlessAborted(mayStart({ digest }), signal)
  await enter(signal)
  try {
    const own = await copyInSlices(bytes)
    signal?.throwIfAborted()
    const thread = idleThreads.pop() ?? new LoadThread()
    const label = { plugin: job.name, digest }
    const answer = await thread.ask({ bytes: own, job }, label, { admit, signal, log, limitMs })
    if (!('loaded' in answer)) throw new Error('a thread has not loaded the module')
    return { ...answer.loaded, facts: await unpackFacts(answer.loaded.facts) }
  } finally {
    leave()
  }
}

/** Files per request to a thread: some 10 ms. */
const FILES_PER_SCAN = 64

/** Starts the threads of {@link scanInThreads}, which takes 100 ms, while the caller prepares its paths. */
export function startThreads(): void {
  try {
    while (running + idleThreads.length < MOST) new LoadThread().rest()
  } catch {
    // Threads are not permitted: files are read in another way.
  }
}

/**
 * Reads files of modules in threads, without their code. Use it for many, because of the threads' start.
 *
 * @returns a promise for each path: of undefined, if the file has to be read in another way, which finds the reason.
 */
export function scanInThreads(
  paths: readonly string[],
  job: ScanJob,
  options: Pick<LoadingContext, 'signal' | 'log'> = {},
): ReadonlyMap<string, Promise<ScannedFile | undefined>> {
  const known: KnownLists = new Map()
  const scanned = new Map<string, Promise<ScannedFile | undefined>>()
  for (let at = 0; at < paths.length; at += FILES_PER_SCAN) {
    const some = paths.slice(at, at + FILES_PER_SCAN)
    const files = scanSome(some, job, options)
    some.forEach((path, index) => {
      const file = files.then(
        async (found) => {
          const one = found[index]
          return one && { ...one, facts: await unpackFacts(one.facts, known) }
        },
        () => undefined,
      )
      scanned.set(path, file)
    })
  }
  return scanned
}

async function scanSome(
  paths: readonly string[],
  job: ScanJob,
  { signal, log = SILENT }: Pick<LoadingContext, 'signal' | 'log'>,
): Promise<readonly (ScannedFile<PackedFacts> | undefined)[]> {
  await enter(signal)
  try {
    const thread = idleThreads.pop() ?? new LoadThread()
    const label = { plugin: 'several' }
    const answer = await thread.ask({ paths, job }, label, { admit: none, signal, log, limitMs: LIMIT_MS })
    if (!('scanned' in answer)) throw new Error('a thread has not read the files')
    return answer.scanned
  } finally {
    leave()
  }
}

/** A script takes milliseconds to load. One that never ends is ended then. */
const SCRIPT_LIMIT_MS = 5_000

/**
 * Makes a plug-in of a script in a thread, which runs it.
 *
 * @returns nothing if only a compiler can remove its types.
 * @throws {@link PluginLoadFailedError} if it takes too long; the reason of the signal.
 */
export async function buildInThread(
  request: ScriptRequest,
  { signal, log = SILENT }: Pick<LoadingContext, 'signal' | 'log'>,
): Promise<Partial<BuiltScript>> {
  await enter(signal)
  try {
    const thread = idleThreads.pop() ?? new LoadThread()
    const label = { plugin: request.script.file }
    const answer = await thread.ask(request, label, { admit: none, signal, log, limitMs: SCRIPT_LIMIT_MS })
    if (!('built' in answer)) throw new Error('a thread has not built the script')
    return answer.built
  } finally {
    leave()
  }
}

const none = () => undefined
const SILENT: Log = { trace: none, debug: none, info: none, warn: none, error: none }

/** Copying a large module in one step would block the event loop too. */
async function copyInSlices(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(bytes.length)
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    if (at > 0) await nextTurn()
    copy.set(bytes.subarray(at, at + SLICE_BYTES), at)
  }
  return copy
}

/** Waiting callers in order. */
const waiting: (() => void)[] = []
let running = 0

/** Waits for a turn. The caller leaves when done. */
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
    else leave() // aborted in the moment of its turn
    throw error
  }
}

function leave(): void {
  const next = waiting.shift()
  if (next)
    next() // takes over this turn
  else running--
}

/** Idle threads. */
const idleThreads: LoadThread[] = []

class LoadThread {
  readonly #worker: Worker
  #timer: NodeJS.Timeout | undefined
  #ended: Error | undefined
  #onEnd: ((reason: Error) => void) | undefined

  constructor() {
    this.#worker = new Worker(workerFile('load-thread'), {
      name: 'wasm-serve load',
      // Without the modules that the process preloads.
      execArgv: [],
      env: {},
    })
    trackThread(this.#worker)
    this.#worker.on('error', (error: Error) => this.#end(error))
    this.#worker.once('exit', (code) => this.#end(new Error(`its thread exited with code ${code}`)))
  }

  /**
   * Terminates the thread if it does not answer.
   *
   * @throws its failure.
   */
  async ask(
    request: LoadRequest | ScanRequest | ScriptRequest,
    label: ThreadLabel & { readonly plugin: string },
    options: RunOptions,
  ): Promise<Exclude<LoadAnswer, { readonly failure: CallFailure }>> {
    clearTimeout(this.#timer)
    this.#worker.ref()
    labelThread(this.#worker, label)
    const answer = await this.#ask(request, label.plugin, options).catch((error: unknown) => {
      void terminateOrWriteOff(this.#worker, options.log) // the caller need not wait for that
      throw error
    })
    this.rest()
    if ('failure' in answer) throw fromFailure(answer.failure)
    return answer
  }

  async #ask(
    request: LoadRequest | ScanRequest | ScriptRequest,
    name: string,
    { admit, signal, limitMs }: RunOptions,
  ): Promise<LoadAnswer> {
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
        timer = setTimeout(
          () => fail(`${'script' in request ? 'it still ran' : 'it was not compiled'} after ${limitMs} ms`),
          limitMs,
        )
        this.#worker.on('message', take)
        this.#worker.postMessage(request, 'bytes' in request ? [request.bytes.buffer as ArrayBuffer] : [])
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

  /** Waits for the next request, until it has been idle for long. */
  rest(): void {
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

interface RunOptions extends Pick<LoadingContext, 'signal'> {
  readonly admit: Admit
  readonly log: Log
  readonly limitMs: number
}
