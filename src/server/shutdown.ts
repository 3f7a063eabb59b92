import { readFileSync } from 'node:fs'
import process from 'node:process'
import { isatty } from 'node:tty'
import closeWithGrace from 'close-with-grace'
import type { FastifyBaseLogger } from 'fastify'
import { endCalls } from '../engine/engine.ts'
import { settleLines } from '../observe/log/lines.ts'
import { exitProcess, killProcess } from '../platform/node-workarounds.ts'
import { processThreads, stuckThreads, terminateThreads } from '../platform/stuck-threads.ts'
import { explainLimit } from '../platform/system-errors.ts'
import type { DrainOptions } from './drain.ts'
import type { RunningServer } from './server.ts'

/** The longest delay of Node's timers. */
const MAX_TIMER_MS = 2_147_483_647

/** Time for threads to end. Threads that can be terminated take some milliseconds; up to five times as long without a core. */
const TERMINATE_MS = 250

/** Exit code if too many threads are stuck: the supervisor should restart the process. (EX_TEMPFAIL of sysexits.h) */
const STUCK_EXIT_CODE = 75

/** Time for the log's last lines: a reader that has stopped must not keep the process alive. */
const LAST_LINES_MS = 200

/** Signals with handlers in this file. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** The signal for a rolling restart of serving processes. */
const RESTART = 'SIGUSR2'

/**
 * A CPU fault ends the process. A Node.js handler would prevent that: it only records the signal, and the same
 * instruction faults again, forever.
 */
const FAULTS = ['SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGSEGV'] as const

/** How often to check whether npm still runs. */
const PARENT_CHECK_MS = 250

/**
 * One Ctrl-C reaches every process of the terminal, and npm hands its copy on: with bash as `sh` two SIGINT arrive
 * within 10 ms. Where npm started the process, a signal this soon after the first is a duplicate of it.
 */
const DUPLICATE_SIGNAL_MS = 250

/** The signals of the process that concern its server. */
export interface ProcessSignals {
  /**
   * Keeps a SIGHUP, which means "reload", from ending a process during its start.
   *
   * @returns a function that stops this and returns whether a SIGHUP arrived. Call it when the process has its handler.
   */
  holdReload(): () => boolean
  /**
   * Calls `kill` when the process exits, however: on a second signal, or on one that ends its start. It kills what would
   * outlive the process. A SIGUSR2 during the start is kept.
   */
  atExit(kill: () => void): void
  /**
   * Drains the server on a signal to end.
   *
   * @param reload - Called on a signal to reload.
   * @param restart - Called on a SIGUSR2. Without it, that is a signal to end.
   */
  endWith(
    server: RunningServer,
    options: DrainOptions,
    log: FastifyBaseLogger,
    reload: () => void,
    restart?: () => void,
  ): void
}

/** @param parentId - See {@link endWithSignals}. */
export function openProcessSignals(parentId?: () => number): ProcessSignals {
  let hasStarted = () => false
  return {
    holdReload,
    atExit(kill) {
      process.on('exit', kill)
      const others = hasStarted
      const ended = watchStart(kill)
      hasStarted = () => [others(), ended()].includes(true)
    },
    endWith(server, options, log, reload, restart) {
      const isRestartAsked = hasStarted()
      endWithSignals(server, options, log, parentId, reload, restart)
      if (isRestartAsked) restart?.()
    },
  }
}

/** @returns ends it, and returns whether a SIGUSR2 arrived. */
function watchStart(kill: () => void): () => boolean {
  let isRestartAsked = false
  const note = () => {
    isRestartAsked = true
  }
  const end = (signal: NodeJS.Signals) => {
    kill()
    stop()
    process.kill(process.pid, signal) // nothing handles it now
  }
  const stop = () => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, end)
    process.off(RESTART, note)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, end)
  process.on(RESTART, note)
  return () => {
    stop()
    return isRestartAsked
  }
}

/**
 * Keeps a SIGHUP, which means "reload", from ending a process during its start, if there is no terminal that could hang
 * up.
 *
 * @returns a function that stops this and returns whether a SIGHUP arrived. Call it when the process has its handler.
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
 * Shuts down gracefully on SIGTERM, SIGINT and a hang-up of the terminal: exit code 0, even if requests had to be cut
 * off after `graceMs`. A second signal ends the process immediately with exit code 1. If a thread cannot be terminated,
 * the process is killed, because Node would wait for the thread. The total is at most `drainMs`, `graceMs` and a second.
 * The log's last lines are written if its reader accepts them in time.
 *
 * Shuts down the same way, with {@link STUCK_EXIT_CODE}, when too many threads are stuck.
 *
 * @param reload - Called on a SIGHUP that is not a hang-up: reloads the configuration.
 * @param parentId - Returns the process id of the parent. Set if npm started the server, which then also ends with npm.
 * @param restart - Called on a SIGUSR2. Without it, that is a signal to end.
 */
export function endWithSignals(
  server: RunningServer,
  options: DrainOptions,
  log: FastifyBaseLogger,
  parentId?: () => number,
  reload: () => void = () => undefined,
  restart?: () => void,
): void {
  const ending = openEnding(server, options, log, restart ? [RESTART] : [])
  if (restart) process.on(RESTART, restart)
  void server.failed?.then((reason) => ending.begin(reason, STUCK_EXIT_CODE))

  const onSignal = (signal: NodeJS.Signals) => {
    const { begunAt } = ending
    if (begunAt === undefined) return ending.begin(signal)
    if (parentId && performance.now() - begunAt < DUPLICATE_SIGNAL_MS) return
    log.error({ signal }, 'second signal: exiting immediately')
    void endThreads(log)
      .then(() => settleLines(LAST_LINES_MS))
      .then(() => process.exit(1))
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  // Without a terminal there can be no hang-up. This also covers nohup, whose "ignore" Node drops at startup. After a
  // hang-up, the descriptors no longer refer to a terminal.
  const hadTerminal = hasTerminal()
  process.on('SIGHUP', (signal) => {
    if (hadTerminal && !hasTerminal()) return onSignal(signal)
    if (ending.begunAt === undefined) reload()
  })

  if (parentId) whenNpmIsGone(parentId, () => ending.begin('npm is gone'))
}

/** The end of a process after its server has drained. */
export interface Ending {
  /** When it began; undefined before. */
  readonly begunAt: number | undefined
  /** Begins it, once. @param exitCode - Of 0 to 127. Default: 0. */
  begin(reason: string, exitCode?: number): void
}

/**
 * Ends the process also when too many threads are stuck, with {@link STUCK_EXIT_CODE}, and after an uncaught error.
 *
 * @param others - Further signals that do not end it.
 */
export function openEnding(
  server: Pick<RunningServer, 'drain'>,
  { drainMs, graceMs }: DrainOptions,
  log: FastifyBaseLogger,
  others: readonly (typeof RESTART)[] = [],
): Ending {
  let begunAt: number | undefined
  let code = 0
  // Longer than the server's own limits: at this limit the process is ended forcibly.
  const delay = Math.min(drainMs + graceMs + 2_000, MAX_TIMER_MS)
  const skip = [...SIGNALS, ...FAULTS, ...others]
  const { close } = closeWithGrace({ delay, logger: log, skip }, async ({ err }) => {
    begunAt ??= performance.now()
    if (err) {
      const limit = explainLimit(err)
      log.fatal({ err }, limit === undefined ? 'uncaught error' : `uncaught error: ${limit}`)
    }
    await server.drain()
    await endThreads(log)
    log.info('closed')
    await settleLines(LAST_LINES_MS)
  })
  process.on('exit', () => {
    if (code !== 0) exitProcess(code)
    killIfStuck()
  })
  const begin = (reason: string, exitCode = 0) => {
    if (begunAt !== undefined) return
    begunAt = performance.now()
    code = exitCode
    log.info({ reason, drainMs, graceMs }, 'closing')
    close()
  }
  processThreads.onProcessStuck(() => begin('threads are stuck', STUCK_EXIT_CODE))
  return {
    get begunAt() {
      return begunAt
    },
    begin,
  }
}

async function endThreads(log: FastifyBaseLogger): Promise<void> {
  endCalls() // before their threads, so that these do not end as failures
  await terminateThreads(log, TERMINATE_MS)
  if (stuckThreads() > 0) log.fatal({ threads: stuckThreads() }, 'threads are stuck: killing the process')
}

/** Kills the process before Node waits for its threads, however the process ends. */
function killIfStuck(): void {
  if (stuckThreads() > 0) killProcess()
}

/**
 * Calls back once, when the npm that ran this process has ended. npm itself lives until the script has ended, but does
 * not always forward signals to it:
 *
 * - `npm > sh > node`, with dash as `sh` (Debian, Alpine's ash): npm sends SIGTERM to `sh`, which dies without
 *   forwarding it. The process gets another parent. If npm is killed, `sh` stays and gets another parent.
 * - `npm > node`, with bash as `sh` (Red Hat, macOS), which execs the command: npm forwards SIGTERM to this process. If
 *   npm is killed, this process gets another parent.
 *
 * So the parent is watched and, if it is a shell that runs a script, the parent's parent too. That one is looked up in
 * `/proc`: only on Linux is it detected that npm was killed while a shell stays. Processes further up may end, such as
 * the shell of `nohup npm start &`.
 */
function whenNpmIsGone(parentId: () => number, callback: () => void): void {
  const parent = parentId()
  // A job of an interactive shell has its own process group and may outlive the shell. npm's children share npm's group.
  if (processOf(parent)?.group !== processOf('self')?.group) return
  const isShell = processOf(parent)?.firstArgument === '-c'
  const grandparent = processOf(parent)?.parent

  const timer = setInterval(() => {
    if (parentId() === parent && (!isShell || processOf(parent)?.parent === grandparent)) return
    clearInterval(timer)
    callback()
  }, PARENT_CHECK_MS).unref()
}

/** Linux's data about a process; undefined elsewhere, or if there is no such process. */
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
    return undefined // the caller compares with the earlier value
  }
}
