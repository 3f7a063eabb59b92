import { setTimeout as sleep } from 'node:timers/promises'
import {
  AdminConflictError,
  FleetChangedError,
  FleetContentError,
  FleetNotAppliedError,
  FleetUnavailableError,
} from '../../errors/errors.ts'
import type { Edits } from '../edits.ts'
import { parseState } from '../state-json.ts'
import { contentsOf, verifiedContent } from './contents.ts'
import type { FleetHead, FleetRevision, FleetStore, SeenNode } from './fleet-store.ts'
import { isLive, nextHead, refuses } from './rollout.ts'
import type { FleetSettings } from './settings.ts'

/* Changes of a fleet that need no node: those of operators. */

/** The edits of a revision. @throws `FleetContentError`, `FleetUnavailableError` */
export async function editsOf(store: FleetStore, { edits: digest }: FleetRevision): Promise<Edits> {
  const text = Buffer.from(await verifiedContent(store, digest, 'list of edits')).toString()
  const edits = parseState(text)
  if ('problem' in edits) throw new FleetContentError('list of edits', edits.problem)
  return edits
}

/** The digests of all contents of a stored revision. */
export async function usesOf(
  store: FleetStore,
  revision: FleetRevision,
  moduleMax: number,
): Promise<readonly string[]> {
  const edits = await editsOf(store, revision)
  return [revision.configuration, revision.edits, ...(await contentsOf(edits, moduleMax))]
}

interface Reverting extends Pick<FleetSettings, 'rules' | 'moduleMax'> {
  /** Default: the one that was served before the newest. */
  readonly revision: number | undefined
  readonly by: string
}

/**
 * The head that serves an earlier revision again, as a new one.
 *
 * @throws {@link AdminConflictError} if it is not kept.
 */
export async function revertTo(
  store: FleetStore,
  head: FleetHead,
  { revision, by, rules, moduleMax }: Reverting,
): Promise<{ readonly head: FleetHead; readonly uses: readonly string[] }> {
  const kept = await store.revisions()
  const wanted = revision === undefined ? head.before : kept.find((each) => each.revision === revision)
  if (!wanted || !kept.some(({ id }) => id === wanted.id))
    throw new AdminConflictError(
      revision === undefined ? 'there is no earlier revision' : `revision ${revision} is not kept`,
    )
  const uses = await usesOf(store, wanted, moduleMax)
  const { configuration, edits } = wanted
  const reason = `back to revision ${wanted.revision}`
  const seen = await store.nodes()
  return { head: nextHead(head, { configuration, edits, by, reason, rules }, seen), uses }
}

/** The current head. @throws `FleetUnavailableError` */
export async function headOf(store: FleetStore): Promise<FleetHead | undefined> {
  const { head } = await store.head()
  return head === 'unchanged' ? undefined : head
}

/**
 * Replaces the head. A write whose answer is lost may have been made: the head shows it.
 *
 * @param head - The head so far.
 * @throws {@link FleetChangedError} if it is another one by now, {@link FleetUnavailableError}
 */
export async function writeHead(
  store: FleetStore,
  head: FleetHead | undefined,
  next: FleetHead,
  uses: readonly string[],
): Promise<void> {
  const written = await store.write(head?.tag, next, uses).catch(async (error) => {
    const found = await headOf(store).catch(() => undefined) // it still does not answer
    if (found?.tag === next.tag) return 'written' as const
    throw error
  })
  if (written === 'changed') throw new FleetChangedError()
  if (written === 'missing')
    throw new FleetUnavailableError(store.name, 'it has removed contents of the change')
}

/** Interval of looking at the nodes. */
const LOOK_MS = 50

/** Nodes after a change. */
interface AppliedNodes {
  /** Nodes that serve the revision. */
  readonly live: readonly SeenNode[]
  /** Nodes that have stopped reporting, and do not count. */
  readonly gone: readonly SeenNode[]
}

/**
 * Resolves when all nodes that report serve a revision, or a newer one.
 *
 * @throws {@link FleetNotAppliedError} if one refuses it, the rollout has stopped, or the time is over.
 */
export async function appliedByAll(
  store: FleetStore,
  { revision, id }: FleetRevision,
  waitMs: number,
  signal?: AbortSignal,
): Promise<AppliedNodes> {
  const end = performance.now() + waitMs
  for (;;) {
    const [{ nodes, now }, { head }] = await Promise.all([store.nodes(), store.head()])
    const live = nodes.filter((node) => isLive(node, now))
    const waiting = live.filter((node) => node.id !== id && node.revision <= revision)
    const isCurrent = head !== 'unchanged' && head?.newest.id === id
    const refusing = isCurrent ? live.filter((node) => refuses(node, head)) : []
    const [first] = refusing
    if (first && waiting.every((node) => refusing.includes(node)))
      throw new FleetNotAppliedError(revision, `${namesOf(refusing)} refused it: ${first.refused?.message}`)
    const isTakenBack = head !== 'unchanged' && head?.rollout.problem !== undefined && !isCurrent
    if (isTakenBack && head.newest.revision === revision + 1)
      throw new FleetNotAppliedError(revision, `it was rolled back: ${head.rollout.problem}`)
    if (waiting.length === 0) return { live, gone: nodes.filter((node) => !live.includes(node)) }
    if (isCurrent && head.rollout.phase === 'stopped')
      throw new FleetNotAppliedError(revision, `its rollout has stopped: ${head.rollout.problem}`)
    if (performance.now() > end) throw new FleetNotAppliedError(revision, `waiting for ${namesOf(waiting)}`)
    await sleep(LOOK_MS, undefined, { signal })
  }
}

/** Names in a message. */
const SHOWN_NODES = 5

/** Names for a message. */
export function namesOf(nodes: readonly SeenNode[]): string {
  const more = nodes.length - SHOWN_NODES
  const names = nodes.slice(0, SHOWN_NODES).map(({ node }) => node)
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ')
}
