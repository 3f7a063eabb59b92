import { exportsOf, harmless, KINDS } from './kinds.ts'
import { type Measured, startVictim, upload } from './victim.ts'

/** The effect of a change on a running server, as a check of the guard. */
export const CHANGES = ['100,000 exports, to a watched folder', '27 MB to be rewritten, by upload'] as const

/** A turn may take less than this on any machine: long work yields to the event loop after 4 ms. */
const LEAST_MS = 5

/**
 * The ratio of CPU times of the longest turn of the event loop: during each of {@link CHANGES}, to the same change with
 * a harmless module of the same size, which counts as 5 ms at least. CPU time hardly depends on other programs; a
 * single turn is measured because work that yields between turns may take long.
 */
export async function measureChangeTurns(): Promise<number[]> {
  const victim = await startVictim()
  try {
    const watch = (name: string, bytes: Uint8Array) => () => victim.watched(name, bytes)
    const put = (name: string, bytes: Uint8Array) => () => upload(victim, name, bytes, large)
    const turn = async (what: () => Promise<string>) => turnOf(await victim.during(what, 0))
    const many = exportsOf(MANY_EXPORTS)
    const fresh = large.bytes()
    await turn(watch('warm', harmless(many.length))) // V8 has compiled nothing of it yet
    const watched = Math.max(LEAST_MS, await turn(watch('plain', harmless(many.length))))
    const watchedMany = await turn(watch('many', many))
    await turn(put('small', harmless(1_000)))
    const uploaded = Math.max(LEAST_MS, await turn(put('flat', harmless(fresh.length))))
    return [watchedMany / watched, (await turn(put('large', fresh))) / uploaded]
  } finally {
    victim.stop()
  }
}

/** To instantiate such a module takes 45 ms of CPU on a quiet machine where functions are not made on demand, a busy one 0.5 s. */
const MANY_EXPORTS = 100_000

const large = kindOf('large, fresh')

function kindOf(wanted: string) {
  const kind = KINDS.find(({ name }) => name === wanted)
  if (!kind) throw new Error(`there is no kind of module "${wanted}"`)
  return kind
}

function turnOf({ turnCpuMs, outcome }: Measured): number {
  if (outcome !== 'ok') throw new Error(`the change was not made: ${outcome}`)
  return turnCpuMs
}
