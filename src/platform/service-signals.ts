import process from 'node:process'

/** What a service or a terminal sends to all of its processes: to end, to reload, and to replace serving processes. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2'] as const

/** Keeps them from ending a process whose parent handles them. Call it first: before, they end the process. */
export function leaveSignalsToParent(): void {
  for (const signal of SIGNALS) process.on(signal, () => undefined)
}
