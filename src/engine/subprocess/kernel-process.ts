import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import process from 'node:process'
import { Worker } from 'node:worker_threads'
import { leaveSignalsToParent } from '../../platform/service-signals.ts'
import { lookWhileGuestsRun } from '../../runtime/interrupts.ts'
import { kernel } from '../../runtime/kernel.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { FD, type Frame, FrameReader, readTasks, TO_CHILD } from './frames.ts'
import { HostedInstance } from './hosted-instance.ts'
import { type ProcessStart, unpack } from './packed.ts'

/* The program of a guest process. The server writes it to standard input, so the process reads no file. */

/**
 * Opens instances and runs calls, in the order in which the server writes them, until the server ends. Arguments: the
 * descriptors to close, separated by commas; `watch` to detect the end of the server in a thread.
 */
function runProcess(runtime: Runtime): void {
  const [inherited = '', watch] = process.argv.slice(2)
  for (const fd of inherited.split(',').filter((text) => text !== '')) closeInherited(Number(fd))
  if (watch === 'watch') watchServer()
  leaveSignalsToParent() // it lets the calls complete
  new Tasks(runtime).run()
}

/** Ignores EBADF: the program that started this process may have closed it. */
function closeInherited(fd: number): void {
  try {
    closeSync(fd)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EBADF')) throw error
  }
}

/** Ends the process when the server ends, even while a guest runs, on systems that do not do that themselves. */
function watchServer(): void {
  const code = `
    const { readSync } = require('node:fs')
    try { readSync(${FD.server}, Buffer.alloc(1)) } finally { process.kill(process.pid, 'SIGKILL') }
  `
  new Worker(code, { eval: true, stdin: false }).unref()
}

/** Interval at which the process looks for an interrupt while a guest runs. */
const LOOK_MS = 4

/** Runs the tasks from the server in order. */
class Tasks {
  readonly #runtime: Runtime
  readonly #instances = new Map<number, HostedInstance>()
  readonly #reader = new FrameReader(Number.POSITIVE_INFINITY, (frame) => this.#receive(frame))
  #waiting: Frame[] = []
  /** A task may take more than one turn. */
  #isBusy = false
  #lookedAt = 0

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  run(): void {
    lookWhileGuestsRun(() => this.#look())
    const socket = new Socket({ fd: FD.tasks, readable: true, writable: false })
    socket.on('data', (piece) => {
      this.#reader.push(piece)
      this.#runAll()
    })
    socket.on('close', () => process.exit())
  }

  #receive(frame: Frame): void {
    if (frame.kind === TO_CHILD.interrupt) this.#instances.get(frame.instance)?.interrupt(frame)
    else this.#waiting.push(frame)
  }

  /** Receives what comes while a guest holds the event loop. */
  #look(): void {
    const now = performance.now()
    if (now - this.#lookedAt < LOOK_MS) return
    this.#lookedAt = now
    try {
      for (let piece = readTasks(); piece; piece = readTasks()) this.#reader.push(piece)
    } catch {
      process.exit() // the server has ended
    }
  }

  #runAll(): void {
    while (!this.#isBusy && this.#waiting.length > 0) {
      const frames = this.#waiting
      this.#waiting = []
      this.#runSome(frames)
    }
  }

  #runSome(frames: readonly Frame[]): void {
    for (const [index, frame] of frames.entries()) {
      const later = this.#take(frame)
      if (!later) continue
      this.#waiting = frames.slice(index + 1)
      this.#isBusy = true
      void later.then(() => {
        this.#isBusy = false
        this.#runAll()
      })
      return
    }
  }

  #take(frame: Frame): Promise<void> | undefined {
    const { kind, instance: number, payload } = frame
    switch (kind) {
      case TO_CHILD.start: {
        const instance = new HostedInstance(number)
        this.#instances.set(number, instance)
        return instance.open(unpack(payload) as ProcessStart, this.#runtime)
      }
      case TO_CHILD.call:
        return this.#instances.get(number)?.call(frame)
      case TO_CHILD.close:
        this.#instances.get(number)?.close()
        this.#instances.delete(number)
        return undefined
      default:
        throw new Error(`unknown task ${kind}`)
    }
  }
}

runProcess(kernel)
