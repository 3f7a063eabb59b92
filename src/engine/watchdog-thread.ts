import { write } from 'node:fs'
import { isatty } from 'node:tty'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { renderLine } from '../observe/log/lines.ts'
import { killProcess } from '../platform/node-workarounds.ts'
import { Slot, type WatchdogMessage, type WatchedRun } from './watchdog-state.ts'

/*
 * The watchdog's thread: looks several times in `stallMs` whether the event loop is still held by the same run of a
 * guest, and kills the process if it is. A thread has no gentler means: the blocked event loop handles no message or signal.
 */

/** How often it looks in the shortest `stallMs`. */
const CHECKS_PER_STALL = 10

/** How long to wait for the log line to be written: the pipe may be full, and its reader stuck like we are. */
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
 * @param sinceLastMs - Since it last looked.
 * @returns the run that has held the event loop for too long.
 */
function look(sinceLastMs: number): WatchedRun | undefined {
  const before = sequence
  sequence = Atomics.load(state, Slot.sequence)
  const number = Atomics.load(state, Slot.running) || Atomics.load(state, Slot.turn)
  if (number === 0 || sequence !== before) heldMs = 0
  // If this thread is late itself, the process was stopped or the machine slept: that time is not charged.
  else heldMs += Math.min(sinceLastMs, tickMs)
  const run = runs.get(number)
  return run && heldMs >= run.stallMs ? run : undefined
}

/** Not `writeSync`: it would wait for ever for a reader that has stopped to read. */
function endProcess({ line }: WatchedRun): void {
  const entry = { level: 'fatal', time: new Date().toISOString(), ...line }
  write(STDERR, isatty(STDERR) ? renderLine(entry) : `${JSON.stringify(entry)}\n`, killProcess)
  setTimeout(killProcess, WRITE_MS)
}
