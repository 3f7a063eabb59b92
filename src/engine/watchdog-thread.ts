import { write } from 'node:fs'
import { isatty } from 'node:tty'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { GuestStallError } from '../errors/errors.ts'
import { renderLine } from '../observe/log/lines.ts'
import { killProcess } from '../platform/node-workarounds.ts'
import { type NumberedGuest, Slot, type WatchdogMessage, whatRuns } from './watchdog-state.ts'

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
const guests = new Map<number, NumberedGuest>()
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
  let isChanged = false
  for (;;) {
    const received = parentPort && receiveMessageOnPort(parentPort)
    if (!received) break
    const message: WatchdogMessage = received.message
    if ('watch' in message) guests.set(message.watch.number, message.watch)
    else guests.delete(message.forget)
    isChanged = true
  }
  if (!isChanged) return
  let least = Number.POSITIVE_INFINITY
  for (const { stallMs } of guests.values()) least = Math.min(least, stallMs)
  tickMs = Math.max(1, least / CHECKS_PER_STALL)
}

/** What has blocked the event loop for too long. */
interface Stall {
  readonly guest: NumberedGuest
  readonly isStart: boolean
}

/**
 * @param sinceLastMs - Time since the last check.
 * @returns what has blocked the event loop for too long.
 */
function look(sinceLastMs: number): Stall | undefined {
  const before = sequence
  sequence = Atomics.load(state, Slot.sequence)
  const number = Atomics.load(state, Slot.running) || Atomics.load(state, Slot.turn)
  if (number === 0 || sequence !== before) heldMs = 0
  // If this thread is late too, the process was stopped or the machine slept: do not charge that time.
  else heldMs += Math.min(sinceLastMs, tickMs)
  const running = whatRuns(number)
  const guest = guests.get(running.guest)
  return guest && heldMs >= guest.stallMs ? { guest, isStart: running.isStart } : undefined
}

/** Not `writeSync`, which would wait forever for a reader that has stopped. */
function endProcess({ guest, isStart }: Stall): void {
  const { number: _, ...names } = guest
  const what = isStart ? `The start of plug-in ${names.plugin}` : `The guest function "${names.function}"`
  const { message, code } = new GuestStallError(what, names.stallMs)
  const entry = { level: 'fatal', time: new Date().toISOString(), code, ...names, msg: message }
  write(STDERR, isatty(STDERR) ? renderLine(entry) : `${JSON.stringify(entry)}\n`, killProcess)
  setTimeout(killProcess, WRITE_MS)
}
