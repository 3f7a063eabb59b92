import { write } from 'node:fs'
import { isatty } from 'node:tty'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { renderLine } from '../observe/log/lines.ts'
import { killProcess } from '../platform/node-workarounds.ts'
import { Slot, type WatchdogMessage, type WatchedRun } from './watchdog-state.ts'

/*
 * The watchdog's thread: checks several times per `stallMs` whether the same run of a guest still blocks the event loop,
 * and kills the process if so. There are no gentler means: the blocked event loop handles no message or signal.
 */

/** Number of checks in the shortest `stallMs`. */
const CHECKS_PER_STALL = 10

/** Time limit for writing the log line: the pipe may be full and its reader stuck. */
const WRITE_MS = 500

const STDERR = 2

const state: Int32Array = workerData
const runs = new Map<number, WatchedRun>()
let tickMs = 1
let sequence = 0
let heldMs = 0

for (let sinceLastMs = 0; ; ) {
  readMessages()
  const stalled = look(sinceLastMs)
  if (stalled) {
    endProcess(stalled)
    break
  }
  const begun = performance.now()
  if (Atomics.wait(state, Slot.end, 0, tickMs) !== 'timed-out') break
  sinceLastMs = performance.now() - begun
}

function readMessages(): void {
  for (;;) {
    const received = parentPort && receiveMessageOnPort(parentPort)
    if (!received) return
    const message: WatchdogMessage = received.message
    if ('watch' in message) runs.set(message.watch.number, message.watch)
    else runs.delete(message.forget)
    tickMs = Math.max(1, Math.min(...[...runs.values()].map(({ stallMs }) => stallMs / CHECKS_PER_STALL)))
  }
}

/**
 * @param sinceLastMs - Time since the last check.
 * @returns the run that has blocked the event loop for too long.
 */
function look(sinceLastMs: number): WatchedRun | undefined {
  const before = sequence
  sequence = Atomics.load(state, Slot.sequence)
  const number = Atomics.load(state, Slot.running) || Atomics.load(state, Slot.turn)
  if (number === 0 || sequence !== before) heldMs = 0
  // If this thread is late too, the process was stopped or the machine slept: do not charge that time.
  else heldMs += Math.min(sinceLastMs, tickMs)
  const run = runs.get(number)
  return run && heldMs >= run.stallMs ? run : undefined
}

/** Not `writeSync`, which would wait forever for a reader that has stopped. */
function endProcess({ line }: WatchedRun): void {
  const entry = { level: 'fatal', time: new Date().toISOString(), ...line }
  write(STDERR, isatty(STDERR) ? renderLine(entry) : `${JSON.stringify(entry)}\n`, killProcess)
  setTimeout(killProcess, WRITE_MS)
}
