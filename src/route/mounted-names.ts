import type { FastifyInstance } from 'fastify'
import { outermost } from './method-guard.ts'
import { type NamedRoute, nameConflicts } from './name-conflicts.ts'

/** The routes of each mount, by the outermost scope: the mounts of an app may use one store. */
const mounted = new WeakMap<FastifyInstance, Set<readonly NamedRoute[]>>()

/**
 * Claims the names of a mount's plug-ins in its app.
 *
 * @returns gives them up.
 * @throws the first of {@link nameConflicts}, also with other mounts of the app.
 */
export function claimNames(app: FastifyInstance, routes: readonly NamedRoute[]): () => void {
  const root = outermost(app)
  const mounts = mounted.get(root) ?? new Set()
  const [conflict] = nameConflicts([...mounts, routes].flat())
  if (conflict) throw conflict
  mounted.set(root, mounts.add(routes))
  return () => mounts.delete(routes)
}
