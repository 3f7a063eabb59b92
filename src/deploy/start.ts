import { resolve } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import { withLocation } from '../options/check-config.ts'
import { type ConfigMap, nodeAt, toData } from '../options/config-node.ts'
import { watchDescriptors } from '../platform/descriptors.ts'
import { type RunningServer, startServer } from '../server/server.ts'
import type { Staleness } from '../server/stale.ts'
import type { ConfigurationSource } from './configuration.ts'
import type { Deployment, DeploymentContext, Deployments } from './deployments.ts'
import { type Configuration, desiredState } from './desired-state.ts'
import { type Edits, NO_EDITS } from './edits.ts'
import { FileSnapshot } from './file-snapshot.ts'
import { deploymentsFrom } from './live-deployments.ts'
import { PluginTable } from './loader.ts'
import { openLocalReplica } from './local-replica.ts'
import { explainPlanFailure, type Plan, planAll } from './plan.ts'
import { type FirstPlan, type Resolved, resolvedBy } from './resolve.ts'
import type { EditStore } from './state-folder.ts'

/**
 * Creates the first deployment.
 *
 * @param begin - Called when the options are known, before anything that serves is opened.
 * @param openStore - Opens the storage of edits. Default: what the options ask for.
 * @throws the reason that it cannot be served.
 */
export async function openDeployments(
  source: ConfigurationSource,
  begin: (options: Resolved['options']) => DeploymentContext | Promise<DeploymentContext>,
  openStore: (configuration: Configuration) => Promise<EditStore | undefined> = openServerStore,
): Promise<Deployments> {
  const first = await planFirst(source, openStore, (server) => !hasProcesses(server))
  const context = await begin(first.options)
  let opened: Deployments | undefined
  const staleness: Staleness = (plugin) => {
    const behind = opened?.behind
    return behind && (behind.plugins?.includes(plugin) ?? true) ? behind : undefined
  }
  const parts = { ...context, ...(context.isDevelopment && { staleness }) }
  const { open = (plan) => openLocalReplica(plan, parts) } = context
  try {
    const replica = await open(first)
    const { app, routes: served } = replica
    const { store, files, tags, plugins, options, routes, sources, edits, desired } = first
    try {
      await store?.write(edits, plugins.modules)
    } catch (error) {
      await app.close()
      await replica.close()
      throw error
    }
    plugins.settled()
    const warnings = [...desired.configuration.warnings, ...desired.warnings, ...first.warnings]
    const deployment: Deployment = {
      ...{ options, routes, sources, edits, warnings, app, served, revision: 1 },
      desired: { ...desired, edits, warnings: [] },
    }
    opened = deploymentsFrom(source, deployment, { files, tags, replica, store }, context)
    return opened
  } catch (error) {
    throw source.listsProblems ? await explainPlanFailure(first, error) : error
  }
}

/**
 * Reads and resolves a configuration, before anything that serves is opened.
 *
 * @param openStore - Opens the storage of edits.
 * @param compiles - Whether plug-ins are compiled in this process, by the options of the server.
 * @throws all problems, together.
 */
export async function planFirst(
  source: ConfigurationSource,
  openStore: (configuration: Configuration) => Promise<EditStore | undefined>,
  compiles?: (server: ConfigMap) => boolean,
): Promise<FirstPlan & Plan & { readonly files: FileSnapshot; readonly tags: ReadonlyMap<string, string> }> {
  const files = new FileSnapshot()
  const tags = new Map<string, string>()
  const plugins = new PluginTable()
  let store: EditStore | undefined
  const plan = await planAll(source, {
    reading: {
      onFile: (path) => files.note(path),
      onTag: (reference, digest) => tags.set(reference, digest),
      ...{ plugins, compiles },
    },
    async desire(configuration) {
      store = await openStore(configuration)
      const desired = store
        ? desiredState(configuration, await readEdits(store, configuration), 1)
        : { revision: 1, configuration, edits: NO_EDITS, warnings: [] }
      return { desired, resolving: { plugins, ...resolvedBy(store, false) } }
    },
  })
  return { ...plan, source, plugins, store, files, tags }
}

function hasProcesses(server: ConfigMap): boolean {
  const node = nodeAt(server, ['processes'])
  const count = node && toData(node)
  return count === 'auto' || Number(count) > 0
}

/** Checks the state folder of a configuration. That of a fleet has something else. @throws the reason that it cannot be used. */
export async function checkState(configuration: Configuration): Promise<void> {
  if (nodeAt(configuration.server, ['fleet'])) return
  const store = await openServerStore(configuration)
  if (store) await readEdits(store, configuration)
}

async function readEdits(store: EditStore, { server }: Configuration): Promise<Edits> {
  try {
    return await store.read()
  } catch (error) {
    throw withLocation(error, server, 'state')
  }
}

/** Loaded only where edits exist or are possible. */
async function openServerStore({ server }: Configuration): Promise<EditStore | undefined> {
  const [admin, state, processes] = ['admin', 'state', 'processes'].map((option) => nodeAt(server, [option]))
  if (!admin && !state && !processes) return undefined
  const { editsInFolder, editsInMemory } = await import('./state-folder.ts')
  const folder = state && toData(state)
  return typeof folder === 'string' ? editsInFolder(resolve(folder)) : editsInMemory()
}

/**
 * Starts a server for a deployment, and watches its files if the options ask for it. Closing it also ends changes.
 *
 * @throws `ListenError`, after closing the deployments.
 */
export async function serveDeployments(
  deployments: Deployments,
  log: FastifyBaseLogger,
): Promise<RunningServer> {
  const { options, app } = deployments.current
  const server = await startServer(options, app, log).catch(async (error) => {
    await deployments.close() // an open store would keep the process alive
    throw error
  })
  const stop = await changeServer(deployments, server, log)
  return {
    ...server,
    async drain() {
      stop()
      await server.drain()
      await deployments.close()
    },
  }
}

/**
 * Lets changes replace the app of a server, watches files and tags of registries if the options ask for it, and counts file
 * descriptors.
 *
 * @returns a function that ends all of it.
 */
export async function changeServer(
  deployments: Deployments,
  server: Pick<RunningServer, 'replace'>,
  log: FastifyBaseLogger,
): Promise<() => void> {
  deployments.follow(server)
  const { options } = deployments.current
  const stopCounting = watchDescriptors(log, options.maxConnections)
  // Loaded on demand.
  const watch = options.watch ? await import('./watch.ts') : undefined
  const stopWatching = watch?.watchFiles(deployments)
  const stopFollowing = await followSources(deployments, log)
  return () => {
    stopWatching?.()
    stopFollowing?.()
    stopCounting()
    deployments.refuse()
  }
}

/** Default of `registryPollMs` with `watch`. */
const REGISTRY_POLL_MS = 60_000

async function followSources(
  deployments: Deployments,
  log: FastifyBaseLogger,
): Promise<(() => void) | undefined> {
  const { watch, registryPollMs = watch ? REGISTRY_POLL_MS : undefined } = deployments.current.options
  if (registryPollMs === undefined) return undefined
  const { followTags } = await import('./follow-tags.ts') // loaded on demand
  return followTags(deployments, registryPollMs, log)
}
