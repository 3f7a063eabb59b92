import { createHook } from 'node:async_hooks'
import { readdirSync, readlinkSync } from 'node:fs'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { collectGarbage } from './heap.ts'

/** Says that nobody may keep an object after the end of the round. @returns the object. */
export type Mark = <Thing extends object>(thing: Thing) => Thing

/** Opens something and closes it, or fails to open it. */
export type Round = (mark: Mark, round: number) => unknown

/** What an opener is tried with. */
export interface Rounds {
  /** By what happens in them. */
  readonly rounds: Readonly<Record<string, Round>>
  /** How many there are. Default: 20. */
  readonly count?: number
  /** Sizes of what outlives a round, such as the number of files in a folder. */
  readonly sizes?: () => Readonly<Record<string, number>>
}

/** By the opener, as `scripts/lifetimes.ts` names it: its file and its name. */
export type Openers = Readonly<Record<string, () => Rounds | Promise<Rounds>>>

/** Every opener passes it: many rounds leave what there was before. */
export function testOpeners(openers: Openers): void {
  for (const [opener, prepare] of Object.entries(openers))
    test(opener, { timeout: LIMIT_MS }, async () => {
      const { rounds, count = 20, sizes = () => ({}) } = await prepare()
      for (const [what, round] of Object.entries(rounds))
        expect(await leftAfter(round, count, sizes), `${opener}, ${what}`).toEqual([])
    })
}

/** Enough for all rounds of an opener on a busy machine. */
const LIMIT_MS = 600_000

/** The first round fills caches, and starts threads that stay. */
const WARM_UP = 1

/** How long something may take to end after it was closed, such as a thread on a busy machine. */
const END_MS = 60_000

/** What many rounds have left, a line each. What grows less than every second round is not left by them. */
async function leftAfter(
  round: Round,
  count = 20,
  sizes: () => Readonly<Record<string, number>> = () => ({}),
): Promise<string[]> {
  for (let warm = 0; warm < WARM_UP; warm++) await round((thing) => thing, warm)
  const resources = new LiveResources()
  const marked: WeakRef<object>[] = []
  const mark: Mark = (thing) => {
    marked.push(new WeakRef(thing))
    return thing
  }
  await nextTurn()
  const before = countOpen()
  const sizesBefore = sizes()
  resources.begin()
  try {
    for (let at = WARM_UP; at < WARM_UP + count; at++) await round(mark, at)
    const find = () => [
      ...grown(before, countOpen(), count / 2),
      ...grown(new Map(), countKinds(marked), count / 2),
      ...grown(new Map(), resources.count(), count / 2),
      ...grown(new Map(Object.entries(sizesBefore)), new Map(Object.entries(sizes())), 1),
    ]
    const end = performance.now() + END_MS
    for (;;) {
      await nextTurn() // what was looked at is kept in the same turn
      collectGarbage()
      await sleep(1) // handles close, and finalizers run
      const left = find()
      if (left.length === 0 || performance.now() > end) return left
    }
  } finally {
    resources.end()
  }
}

function grown(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  most: number,
): string[] {
  return [...after].flatMap(([kind, count]) => {
    const more = count - (before.get(kind) ?? 0)
    return more >= most ? [`${more} more: ${kind}`] : []
  })
}

/** Open descriptors by what they lead to, threads, children, and listeners of the process. */
function countOpen(): Map<string, number> {
  const open = new Map<string, number>()
  const add = (kind: string, count = 1) => open.set(kind, (open.get(kind) ?? 0) + count)
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      add(`descriptor of ${readlinkSync(`/proc/self/fd/${fd}`).replace(/\d+/g, 'N')}`)
    } catch {
      // the one with which the folder was read
    }
  }
  add('thread', readdirSync('/proc/self/task').length)
  for (const name of process.eventNames())
    add(`listener of the process for ${String(name)}`, process.listenerCount(name))
  return open
}

function countKinds(marked: readonly WeakRef<object>[]): Map<string, number> {
  const kept = new Map<string, number>()
  for (const ref of marked) {
    const thing = ref.deref()
    if (!thing) continue
    const kind = `kept ${thing.constructor?.name || 'object'}`
    kept.set(kind, (kept.get(kind) ?? 0) + 1)
  }
  return kept
}

/** Neither is open after its turn. */
const PASSING = new Set(['PROMISE', 'TickObject', 'Microtask'])

/** Handles, timers and requests of Node.js that were made and have not ended, also those that do not keep the process alive. */
class LiveResources {
  readonly #live = new Map<number, { readonly type: string; readonly resource: WeakRef<object> }>()
  readonly #hook = createHook({
    init: (id, type, _trigger, resource) => {
      if (!PASSING.has(type)) this.#live.set(id, { type, resource: new WeakRef(resource) })
    },
    destroy: (id) => {
      this.#live.delete(id)
    },
  })

  begin(): void {
    this.#hook.enable()
  }

  end(): void {
    this.#hook.disable()
  }

  count(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { type, resource: ref } of this.#live.values()) {
      const resource = ref.deref()
      if (resource && '_destroyed' in resource && resource._destroyed) continue // a timer that is over
      const kind = `${type}${callbackOf(resource)}`
      counts.set(kind, (counts.get(kind) ?? 0) + 1)
    }
    return counts
  }
}

/** Tells timers apart. */
function callbackOf(resource: object | undefined): string {
  if (!resource || !('_onTimeout' in resource)) return ''
  return ` ${String(resource._onTimeout).replace(/\s+/g, ' ').slice(0, 120)}`
}
