import { readFileSync } from 'node:fs'
import process from 'node:process'
import { isatty } from 'node:tty'
import closeWithGrace from 'close-with-grace'
import type { FastifyBaseLogger } from 'fastify'
import { endCalls } from '../engine/engine.ts'
import { settleLines } from '../observe/log/lines.ts'
import { exitProcess, killProcess } from '../platform/node-workarounds.ts'
import { processThreads, stuckThreads, terminateThreads } from '../platform/stuck-threads.ts'
import type { DrainOptions } from './drain.ts'
import type { RunningServer } from './server.ts'

/** The longest delay of Node's timers. */
const MAX_TIMER_MS = 2_147_483_647

/** How long threads may take to end: those that can be ended take some milliseconds. */
const TERMINATE_MS = 300

/** Exit code where too many threads are stuck: the process is to be started again. (EX_TEMPFAIL of sysexits.h) */
const STUCK_EXIT_CODE = 75

/** How long the log's last lines may take: a reader that has stopped does not keep the process from ending. */
const LAST_LINES_MS = 200

/** Signals that have their own handlers here. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * A CPU fault ends the process. A handler of Node's would not: it only records the signal, and the same instruction runs
 * again, for ever.
 */
const FAULTS = ['SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGSEGV'] as const

/** How often to look whether npm is still there. */
const PARENT_CHECK_MS = 250

/**
 * One Ctrl-C reaches every process of the terminal, and npm hands its copy on: with bash as `sh` two SIGINT arrive
 * within 10 ms. Where npm started the process, a signal this soon after the first is a duplicate of it.
 */
const DUPLICATE_SIGNAL_MS = 250

/** The signals of the process that concern its server. */
export interface ProcessSignals {
  /**
   * Keeps a SIGHUP from ending a process that starts, where it means "reload".
   *
   * @returns Ends that, and returns whether there was one. Call it when the process has its handler.
   */
  holdReload(): () => boolean
  /** Drains the server when the process is asked to end. @param reload - Called when it is asked to reload. */
  endWith(server: RunningServer, options: DrainOptions, log: FastifyBaseLogger, reload: () => void): void
}

/** @param parentId - See {@link endWithSignals}. */
export function openProcessSignals(parentId?: () => number): ProcessSignals {
  return {
    holdReload,
    endWith: (server, options, log, reload) => endWithSignals(server, options, log, parentId, reload),
  }
}

/**
 * Keeps a SIGHUP from ending a process that starts, where it means "reload": where there is no terminal that could hang
 * up.
 *
 * @returns Ends that, and returns whether there was one. Call it when the process has its handler.
 */
function holdReload(): () => boolean {
  if (hasTerminal()) return () => false
  let isAsked = false
  const note = () => {
    isAsked = true
  }
  process.on('SIGHUP', note)
  return () => {
    process.off('SIGHUP', note)
    return isAsked
  }
}

function hasTerminal(): boolean {
  return [0, 1, 2].some((descriptor) => isatty(descriptor))
}

/**
 * Ends the process in good order on SIGTERM, SIGINT and a hang-up of its terminal: exit code 0, also if requests had
 * to be cut off after `graceMs`. Ends it at once on a second signal, with 1. If a thread cannot be ended it is killed,
 * because Node would wait for the thread: within `drainMs`, `graceMs` and a second in all. The log gets its last lines
 * if it takes them in time.
 *
 * Ends it the same way, with {@link STUCK_EXIT_CODE}, when too many threads are stuck.
 *
 * @param reload - Called on a SIGHUP that is no hang-up: reloads the configuration.
 * @param parentId - Returns the process id of the parent. Set if npm started the server, which then also ends with npm.
 */
export function endWithSignals(
  server: RunningServer,
  { drainMs, graceMs }: DrainOptions,
  log: FastifyBaseLogger,
  parentId?: () => number,
  reload: () => void = () => undefined,
): void {
  let begun: number | undefined
  // More than the server takes for itself: this limit ends the process the hard way.
  const delay = Math.min(drainMs + graceMs + 2_000, MAX_TIMER_MS)
  const { close } = closeWithGrace({ delay, logger: log, skip: [...SIGNALS, ...FAULTS] }, async ({ err }) => {
    begun ??= performance.now()
    if (err) log.fatal({ err }, 'an error that nothing handles')
    await server.drain()
    await endThreads(log)
    log.info('closed')
    await settleLines(LAST_LINES_MS)
  })
  let isStuck = false
  process.on('exit', () => {
    if (isStuck) exitProcess(STUCK_EXIT_CODE)
    killIfStuck()
  })
  const begin = (reason: string) => {
    begun = performance.now()
    log.info({ reason, drainMs, graceMs }, 'closing')
    close()
  }

  processThreads.onProcessStuck(() => {
    if (begun !== undefined) return
    isStuck = true
    begin('threads are stuck')
  })

  const onSignal = (signal: NodeJS.Signals) => {
    if (begun === undefined) return begin(signal)
    if (parentId && performance.now() - begun < DUPLICATE_SIGNAL_MS) return
    log.error({ signal }, 'a second signal: ending at once')
    endThreads(log)
      .then(() => settleLines(LAST_LINES_MS))
      .then(() => process.exit(1))
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  // Without a terminal there is none to hang up: nohup, whose "ignore it" Node forgets when it starts. When it hangs up,
  // its descriptors are none of a terminal any more.
  const hadTerminal = hasTerminal()
  process.on('SIGHUP', (signal) => {
    if (hadTerminal && !hasTerminal()) return onSignal(signal)
    if (begun === undefined) reload()
  })

  if (parentId) {
    whenNpmIsGone(parentId, () => {
      if (begun === undefined) begin('npm is gone')
    })
  }
}

async function endThreads(log: FastifyBaseLogger): Promise<void> {
  endCalls() // before their threads: that these end is no failure then
  await terminateThreads(log, TERMINATE_MS)
  if (stuckThreads() > 0)
    log.fatal({ threads: stuckThreads() }, 'threads are stuck: the process ends without them')
}

/** Before Node waits for its threads, by whatever way it came to its end. */
function killIfStuck(): void {
  if (stuckThreads() > 0) killProcess()
}

/**
 * Calls back when the npm that ran this process is gone, once. npm itself lives on until the script has ended, but does
 * not always hand signals on to it:
 *
 * - `npm > sh > node`, with dash as `sh` (Debian, Alpine's ash): SIGTERM goes from npm to `sh`, which dies of it and
 *   does not pass it on. The process gets another parent. If npm is killed, `sh` stays, and gets another parent.
 * - `npm > node`, with bash as `sh` (Red Hat, macOS), which becomes the command: npm hands SIGTERM on to us. If it is
 *   killed, we get another parent.
 *
 * So the parent is watched and, if it is a shell that runs a script, the parent's parent. That one is looked up in
 * `/proc`: only Linux notices that npm was killed while a shell stays. Processes further up may end, such as the shell
 * of `nohup npm start &`.
 */
function whenNpmIsGone(parentId: () => number, callback: () => void): void {
  const parent = parentId()
  // A job of an interactive shell has a process group of its own, and may outlive the shell. npm's children have npm's.
  if (processOf(parent)?.group !== processOf('self')?.group) return
  const isShell = processOf(parent)?.firstArgument === '-c'
  const grandparent = processOf(parent)?.parent

  const timer = setInterval(() => {
    if (parentId() === parent && (!isShell || processOf(parent)?.parent === grandparent)) return
    clearInterval(timer)
    callback()
  }, PARENT_CHECK_MS).unref()
}

/** What Linux knows of a process; nothing elsewhere, or if there is no such process. */
function processOf(
  id: number | 'self',
): { parent: string | undefined; group: string | undefined; firstArgument: string | undefined } | undefined {
  try {
    const stat = readFileSync(`/proc/${id}/stat`, 'latin1')
    // "id (name) state parent group ...", and a name may contain anything
    const [, parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [, firstArgument] = readFileSync(`/proc/${id}/cmdline`, 'utf8').split('\0')
    return { parent, group, firstArgument }
  } catch {
    return undefined // the caller compares with what was there
  }
}
