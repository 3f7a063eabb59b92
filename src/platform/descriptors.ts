import { readdir, readFile, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { errorCode, openFiles } from './system-errors.ts'

/**
 * The folder in which Linux shows a process's open descriptors as links. A path that starts with one starts at that very
 * directory, wherever it was moved: an equivalent of `openat`, which Node lacks.
 */
export const FD_FOLDER = '/proc/self/fd'

/** The shortest pause between two looks, and the maximum share of time spent on them. */
const LOOK_MS = 1_000
const SHARE = 1 / 20

/** Shares of the limit: above the first, descriptors are short until fewer than the second are in use. */
const MANY = 0.9
const FEWER = 0.8

const REMEDY =
  'raise the limit (ulimit -n; LimitNOFILE= of systemd, --ulimit nofile= of Docker), or lower maxConnections'

let trouble: string | undefined

/** That file descriptors are short in this process, as text; undefined if they are not. */
export function descriptorTrouble(): string | undefined {
  return trouble
}

/**
 * Looks whether file descriptors become short: when none is left, the system closes new connections, and nobody is told.
 *
 * @param connections - The maximum number of connections: logged if they do not fit into the limit.
 * @returns a function that stops it.
 */
export function watchDescriptors(log: FastifyBaseLogger, connections = 0): () => void {
  const ended = new AbortController()
  void watch(log, connections, ended.signal).catch((error) => {
    if (!ended.signal.aborted) log.error({ err: error }, 'file descriptors are no longer counted')
  })
  return () => {
    ended.abort()
    trouble = undefined
  }
}

async function watch(log: FastifyBaseLogger, connections: number, signal: AbortSignal): Promise<void> {
  const limit = await readLimit()
  if (limit === undefined) return
  let isFirst = true
  let isShort = false
  for (;;) {
    const begun = performance.now()
    const used = await countUsed(limit)
    if (used === undefined || signal.aborted) return
    const tookMs = performance.now() - begun
    if (isFirst && used + connections > limit)
      log.warn(
        { used, maxConnections: connections, limit },
        `the connections of maxConnections do not fit into the file descriptors that the process may have: ${REMEDY}`,
      )
    isFirst = false
    if (!isShort && used > limit * MANY) {
      isShort = true
      log.warn({ used, limit }, `file descriptors are short, and new connections fail without one: ${REMEDY}`)
    } else if (isShort && used < limit * FEWER) {
      isShort = false
      log.info({ used, limit }, 'enough file descriptors are free again')
    }
    trouble = isShort ? `${used} of ${limit} file descriptors are in use` : undefined
    await sleep(Math.max(LOOK_MS, tookMs / SHARE), undefined, { signal, ref: false })
  }
}

/** Linux tells it in less time than Node.js. */
async function readLimit(): Promise<number | undefined> {
  const text = await readFile('/proc/self/limits', 'utf8').catch(() => undefined)
  const soft = text && /^Max open files\s+(\w+)/m.exec(text)?.[1]
  if (!soft) return openFiles()
  return soft === 'unlimited' ? undefined : Number(soft)
}

/** @returns undefined where it cannot be known. */
async function countUsed(limit: number): Promise<number | undefined> {
  const folder = await stat('/proc/self/fd').catch(() => undefined)
  if (folder && folder.size > 0) return folder.size // Linux 6.2 and later
  try {
    return (await readdir('/dev/fd')).length
  } catch (error) {
    return ['EMFILE', 'ENFILE'].includes(errorCode(error) ?? '') ? limit : undefined
  }
}
