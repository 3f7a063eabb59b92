import { setTimeout as sleep } from 'node:timers/promises'
import type { Change } from '../../mcp/list-changes.ts'
import type { TaskRequest } from '../../mcp/task.ts'
import type { ServingProcess } from './serving-process.ts'

/*
 * Requests of agents among serving processes. The message that cancels a request of 2025 is a request of its own, and may reach
 * another process. So may a client that waits for a change.
 */

/** How long a process may take to answer. One that holds its event loop, or is stopped, keeps no other from cancelling. */
const ANSWER_MS = 1_000

/**
 * Cancels the request with this key, wherever it runs. Clients without a session may choose the same key: if several requests have it,
 * none is cancelled.
 */
export async function cancelRequest(
  key: string,
  processes: readonly Pick<ServingProcess, 'countRequests' | 'cancelRequest'>[],
): Promise<void> {
  const late = sleep(ANSWER_MS, 0, { ref: false })
  const counts = await Promise.all(
    processes.map((process) => Promise.race([process.countRequests(key).catch(() => 0), late])), // it has ended, or starts
  )
  const running = processes.filter((_, index) => counts[index] !== 0)
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 1) for (const process of running) process.cancelRequest(key)
}

/** Tells all processes but one of changes. */
export function announceChanges(
  changes: readonly Change[],
  from: ServingProcess,
  processes: readonly ServingProcess[],
): void {
  for (const process of processes) if (process !== from) process.announce(changes)
}

/**
 * Asks the process that has a task.
 *
 * @param owner - The number of the process.
 * @returns undefined if there is no such process: its tasks have ended with it.
 * @throws if it does not answer.
 */
export async function askTask(
  owner: number,
  request: TaskRequest,
  processes: readonly ServingProcess[],
): Promise<string | undefined> {
  const late = sleep(ANSWER_MS, undefined, { ref: false }).then(() => {
    throw new Error('the process does not respond')
  })
  const named = processes.filter(({ number }) => number === owner) // while it is replaced, there are two
  const answers = await Promise.race([Promise.all(named.map((process) => process.askTask(request))), late])
  return answers.find((text) => text !== undefined)
}
