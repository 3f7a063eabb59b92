import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** Arguments of `unshare` that make the following command process 1, as in a container. */
export const IN_A_CONTAINER = ['-r', '--pid', '--fork', '--kill-child', '--mount-proc']

/** Whether this machine lets us. */
export const canContain = spawnSync('unshare', [...IN_A_CONTAINER, 'true']).status === 0

/** The process 1 that an `unshare` has started, as seen from outside. */
export function containedBy(id: number | undefined): number {
  return Number(readFileSync(`/proc/${id}/task/${id}/children`, 'utf8'))
}
