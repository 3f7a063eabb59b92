import { write } from 'node:fs'
import { isatty } from 'node:tty'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { GuestStallError, PrimaryGoneError } from '../errors/errors.ts'
import { renderLine } from '../observe/log/lines.ts'
import { killProcess } from '../platform/node-workarounds.ts'
import { interruptRun } from '../runtime/interrupts.ts'
import {
  type NumberedGuest,
  type WatchdogMessage,
  type WatchdogStart,
  type WatchedParent,
  Word,
  whatRuns,
} from './watchdog-state.ts'

/*
 * The watchdog's thread: checks several times per limit whether the same run of a guest still blocks the event loop. It
 * interrupts the guest at its deadline, and kills the process if the guest still runs at `stallMs`: the blocked event loop
 * handles no message or signal. It kills the process as well if it lives on without its parent.
 */

/** Number of checks in the shortest limit. */
const CHECKS_PER_LIMIT = 20

/** Interval of checks of the parent. */
const PARENT_CHECK_MS = 500

/** Time limit for writing the log line: the pipe may be full and its reader stuck. */
const WRITE_MS = 500

const STDERR = 2

const { state, end: endWord }: WatchdogStart = workerData
const guests = new Map<number, NumberedGuest>()
let parent: WatchedParent | undefined
let tickMs = 1
let run = 0
let blockedMs = 0
let aloneMs = 0

for (let sinceLastMs = 0; ; ) {
  readMessages()
  const end = look(sinceLastMs) ?? lookAtParent(sinceLastMs)
  if (end) {
    endProcess(end)
    break
  }
  const begun = performance.now()
  if (Atomics.wait(endWord, 0, 0, tickMs) !== 'timed-out') break
  sinceLastMs = performance.now() - begun
}

function readMessages(): void {
  let isChanged = false
  for (;;) {
    const received = parentPort && receiveMessageOnPort(parentPort)
    if (!received) break
    const message: WatchdogMessage = received.message
    if ('watch' in message) guests.set(message.watch.number, message.watch)
    else if ('forget' in message) guests.delete(message.forget)
    else parent = message.parent
    isChanged = true
  }
  if (!isChanged) return
  let least = Number.POSITIVE_INFINITY
  for (const { stallMs, deadlineMs } of guests.values())
    for (const limit of [stallMs, deadlineMs]) if (limit > 0) least = Math.min(least, limit)
  tickMs = Math.max(1, Math.min(least / CHECKS_PER_LIMIT, parent ? PARENT_CHECK_MS : least))
}

/** The last log line of a process. */
interface LastLine {
  readonly code: string
  readonly msg: string
}

/**
 * @param sinceLastMs - Time since the last check.
 * @returns the reason to kill the process: a guest has blocked the event loop for too long.
 */
function look(sinceLastMs: number): LastLine | undefined {
  const before = run
  run = Math.abs(Atomics.load(state, Word.run))
  if (run === 0 || run !== before) blockedMs = 0
  // If this thread is late too, the process was stopped or the machine slept: do not charge that time.
  else blockedMs += Math.min(sinceLastMs, tickMs)
  const { guest, isStart } = whatRuns(Atomics.load(state, Word.guest))
  const watched = guests.get(guest)
  if (!watched || Math.abs(Atomics.load(state, Word.run)) !== run) return undefined
  const { deadlineMs, stallMs } = watched
  if (!isStart && deadlineMs > 0 && blockedMs >= deadlineMs) interruptRun(state, run)
  return stallMs > 0 && blockedMs >= stallMs ? lineOf(watched, isStart) : undefined
}

function lineOf({ number: _, ...names }: NumberedGuest, isStart: boolean): LastLine {
  const what = isStart ? `The start of plug-in ${names.plugin}` : `The guest function "${names.function}"`
  const { message, code } = new GuestStallError(what, names.stallMs)
  return { code, ...names, msg: message }
}

/** A process that drains ends before this limit, unless something holds its event loop. */
function lookAtParent(sinceLastMs: number): LastLine | undefined {
  if (!parent || process.ppid === parent.pid) return undefined
  aloneMs += Math.min(sinceLastMs, tickMs)
  if (aloneMs < parent.limitMs) return undefined
  const { message, code } = new PrimaryGoneError(parent.limitMs)
  return { code, msg: message }
}

/** Avoids `writeSync`, which would wait forever for a reader that has stopped. */
function endProcess(line: LastLine): void {
  const entry = { level: 'fatal', time: new Date().toISOString(), ...line }
  write(STDERR, isatty(STDERR) ? renderLine(entry) : `${JSON.stringify(entry)}\n`, killProcess)
  setTimeout(killProcess, WRITE_MS)
}
