import type { FleetHead, SeenNodes } from './fleet-store.ts'
import { isLive, refuses } from './rollout.ts'

/**
 * How far the newest revision is: `served` by all live nodes, `refused` by one or stopped, or `underway`. Without a live
 * node it is underway.
 */
export function progressOf(head: FleetHead, { nodes, now }: SeenNodes): 'served' | 'refused' | 'underway' {
  const live = nodes.filter((node) => isLive(node, now))
  if (head.rollout.phase === 'stopped' || live.some((node) => refuses(node, head))) return 'refused'
  return live.length > 0 && live.every(({ id }) => id === head.newest.id) ? 'served' : 'underway'
}
