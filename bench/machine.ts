import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

const WATCHED_MS = 1_000

/** The load of the machine's cores while the bench is idle: 0 is idle, 1 is all of them. */
export async function watchMachine(): Promise<number> {
  const before = times()
  await sleep(WATCHED_MS)
  const after = times()
  return 1 - (after.idle - before.idle) / (after.all - before.all)
}

function times(): { readonly idle: number; readonly all: number } {
  const cores = cpus().map(({ times }) => times)
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  return {
    idle: sum(cores.map(({ idle }) => idle)),
    all: sum(cores.flatMap((core) => Object.values(core))),
  }
}
