import { Worker } from 'node:worker_threads'
import { workerFile } from '../../platform/packages.ts'
import type { Runtime } from '../../runtime/runtime.ts'

/**
 * Limits the JavaScript heap of a thread, which host functions use, in MiB: allocations in small pieces end only the thread.
 * The collection that meets the limit gets 16 MiB more (`kExtraHeapAllowance` in Node's `node_worker.cc`), and V8 ends the
 * process if it needs more than that. It may need as much as a third of the young generation, whose default in Node.js 24 is
 * 96 MiB: hence a limit for it too. A single larger allocation, such as the table of a growing `Map`, still ends the process.
 */
const HEAP_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 24 }

/** Starts a thread, which waits for its start data. */
export function newThread(runtime: Runtime['name'], name: string): Worker {
  return new Worker(workerFile(`${runtime}-thread`), { name, resourceLimits: HEAP_LIMITS })
}

/** How long it is kept. */
const KEPT_MS = 10_000

/** A thread whose work is not known yet. */
let prestarted: { readonly runtime: Runtime['name']; readonly worker: Worker } | undefined

/**
 * Starts a thread before its work is known: Node.js takes about as long for it as for loading Fastify. Does nothing where
 * no thread can be started: the one that is needed will fail with the reason.
 */
export function prestartThread(runtime: Runtime['name']): void {
  try {
    const worker = newThread(runtime, 'wasm-serve')
    prestarted = { runtime, worker }
    const forget = () => {
      if (prestarted?.worker === worker) prestarted = undefined
    }
    worker.on('error', forget).on('exit', forget).unref()
    setTimeout(() => {
      if (prestarted?.worker === worker) void takePrestartedThread(runtime)?.terminate()
    }, KEPT_MS).unref()
  } catch {
    // As `--permission` without `--allow-worker` does.
  }
}

/** The thread that was started before, for one that takes it first. */
export function takePrestartedThread(runtime: Runtime['name']): Worker | undefined {
  if (prestarted?.runtime !== runtime) return undefined
  const { worker } = prestarted
  prestarted = undefined
  worker.ref()
  return worker
}
