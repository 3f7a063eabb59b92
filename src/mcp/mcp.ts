import type { FastifyInstance } from 'fastify'
import { ToolConflictError } from '../errors/errors.ts'
import { MCP_DEFAULTS } from '../options/mcp-defaults.ts'
import type { CheckedWasmServeOptions } from '../options/options.ts'
import { toolConflicts } from '../options/tool-name.ts'
import { packageVersion } from '../platform/packages.ts'
import { type RateCounter, RateCounts } from '../platform/rate-counts.ts'
import type { CallableRoute } from '../route/callable-route.ts'
import { readXtpSchema } from '../route/openapi/xtp-schema.ts'
import { openAccess } from './access.ts'
import { openAudit } from './audit.ts'
import { describeTool } from './description.ts'
import { addEndpoint } from './endpoint.ts'
import type { GuestServer } from './guest-server.ts'
import { openHyperMcp } from './hyper-mcp.ts'
import { ListChanges, type ListVersions } from './list-changes.ts'
import { openMethods } from './methods.ts'
import { addMetadata } from './protected-resource.ts'
import { ClientRates } from './rate-limit.ts'
import { newStateSecret, RequestStates } from './request-state.ts'
import { reviewTools } from './review.ts'
import { RunningRequests } from './running-requests.ts'
import { describesItself, isDescription, openSelfDescribed } from './self-described.ts'
import { type TaskHost, Tasks } from './tasks.ts'
import { openTool, type Tool } from './tool.ts'
import { ToolNotes } from './tool-notes.ts'

export { ListChanges, newStateSecret, RunningRequests, Tasks, ToolNotes }

/** The endpoint of an app. */
interface McpEndpoint {
  /** What identifies the content of the lists. */
  readonly versions: ListVersions
  /** What goes on with the calls of tasks, once the app answers. */
  readonly taskHost: TaskHost
  /** Warns of tools that models cannot use well, and of descriptions that cannot be used. It calls guests, and never throws. */
  review(): Promise<void>
}

/** The options of the endpoint. */
type McpOptions = NonNullable<CheckedWasmServeOptions['mcp']>

/** Arguments that are not logged by default. */
const REDACTED = ['password', 'secret', 'token', 'apiKey', 'authorization']

/** The app around the endpoint. */
interface McpHost {
  /** Whether no hook of the app reads answers. */
  readonly isUnwatched: boolean
  /** Keys that the app verifies. */
  readonly apiKeys?: readonly string[] | undefined
  /** Streams of clients that wait for changed lists. Default: lists do not change. */
  readonly changes?: ListChanges
  /** Counts for the rate limit. Default: the endpoint counts for itself. */
  readonly counter?: RateCounter
  /** Seals states, unless the options have a secret. Default: a new one. */
  readonly stateSecret?: string
  /** Requests that clients may cancel. Default: those of this endpoint. */
  readonly running?: RunningRequests
  /** Calls that go on after their requests. Default: those of this endpoint. */
  readonly tasks?: Tasks
  /** Warnings that were logged. Default: none. */
  readonly notes?: ToolNotes
}

/** The function that is named like its plug-in is served at the URL of the plug-in, and below it: it is one tool. */
function withoutTwins(routes: readonly CallableRoute[]): readonly CallableRoute[] {
  const keyOf = ({ served }: CallableRoute, url: string) =>
    JSON.stringify([served.plugin, served.function, url])
  const keys = new Set(routes.map((route) => keyOf(route, route.served.url)))
  return routes.filter((route) => {
    const { url, function: name } = route.served
    return !url.endsWith(`/${name}`) || !keys.has(keyOf(route, url.slice(0, -name.length - 1) || '/'))
  })
}

/**
 * Serves routes as tools at one URL of an app. Call it after the routes were added.
 *
 * @param routes - The routes that are tools.
 * @throws {@link ToolConflictError} if two have the same name, {@link ToolSchemaInvalidError}, {@link RouteInvalidError} if the
 * URL is taken.
 */
export async function addMcp(
  app: FastifyInstance,
  options: McpOptions,
  routes: readonly CallableRoute[],
  {
    isUnwatched,
    apiKeys,
    changes,
    counter = new RateCounts(),
    stateSecret = newStateSecret(),
    running = new RunningRequests(),
    tasks: lastingTasks,
    notes = new ToolNotes(),
  }: McpHost,
): Promise<McpEndpoint> {
  const isGuestServer = ({ options: { contract } }: CallableRoute) => contract === 'hyper-mcp'
  const described = withoutTwins(routes.filter((route) => !isGuestServer(route) && !isDescription(route)))
  const conflicts = toolConflicts(
    described.map(({ options: { tool, url }, served }) => ({ tool, url, functionName: served.function })),
  )
  if (conflicts.length > 0) throw new ToolConflictError(conflicts.join('\n'))
  const { title, instructions, version = packageVersion(), hosts = [], origins = [] } = options
  const { url, name, pageSize, ttlMs, bodyLimit } = { ...MCP_DEFAULTS, ...options }
  const { access: rules, rateLimit, resource, authorizationServers, audit: auditLevel = 'calls' } = options
  const { redactArguments: redact = REDACTED } = options
  const access = openAccess(rules, apiKeys)
  const tasks = lastingTasks ?? new Tasks(changes)
  const opened = await Promise.all(described.map((route) => openRouteTool(route, notes)))
  const rates = rateLimit && new ClientRates(rateLimit, counter)
  const states = new RequestStates(options.stateSecret ?? stateSecret)
  const audit = openAudit({ level: auditLevel, redact })
  const tools = opened.flatMap(({ tool }) => tool ?? [])
  const hyper = routes
    .filter(isGuestServer)
    .map((route) => ({ route, guest: openHyperMcp(route, ttlMs, changes, notes) }))
  const guests = [...opened.flatMap(({ route, guest }) => (guest ? [{ route, guest }] : [])), ...hyper]
  const methods = openMethods(
    { name, version, title, instructions, pageSize, ttlMs },
    {
      ...{ tools, guests: guests.map(({ guest }) => guest), access, audit, notes, tasks },
      isChanging: changes !== undefined,
    },
  )
  tasks.begin(methods.taskHost)
  if (!lastingTasks) app.addHook('preClose', async () => tasks.close())
  const isFound = resource !== undefined && authorizationServers !== undefined
  const findable = isFound ? resource : undefined
  const scopes = [...new Set(rules?.flatMap(({ scope }) => scope ?? []))]
  addEndpoint(
    app,
    { url, hosts, origins, bodyLimit, resource: findable, scopes, isUnwatched },
    { methods, access, rates, changes, audit, states, running, tasks },
  )
  if (isFound) addMetadata(app, { resource, authorizationServers, scopes })
  const stop = changes?.watch((change) => {
    for (const { guest } of guests) guest.forget(change)
  })
  app.addHook('onClose', async () => stop?.())
  const versionOf = ({ plugin, options: { url, tool } }: CallableRoute) => [url, plugin.digest, tool]
  const isEager = ({ route }: { route: CallableRoute }) => route.plugin.compile === undefined
  const reviewed = guests
    .filter(isEager) // others are loaded by their first calls
    .map(({ route, guest }) => ({ guest, version: JSON.stringify(versionOf(route)) }))
  const problems = opened.flatMap(({ problem }) => problem ?? [])
  return {
    taskHost: methods.taskHost,
    versions: methods.versions(JSON.stringify([rules, guests.map(({ route }) => versionOf(route))])),
    review: () => reviewTools({ tools, guests: reviewed, problems }, notes, app.log),
  }
}

/** A route as a tool: the tool, or the guest that describes it. */
interface RouteTool {
  readonly route: CallableRoute
  readonly tool?: Tool
  readonly guest?: GuestServer
  /** Why its XTP schema cannot be used. undefined: it can be, or there is none. */
  readonly problem: string | undefined
}

async function openRouteTool(route: CallableRoute, notes: ToolNotes): Promise<RouteTool> {
  const { source, xtpSchema, options, served, plugin } = route
  let problem: string | undefined
  const refuse = (reason: string) => {
    problem = `The XTP schema of the plug-in ${plugin.name} does not describe the tool ${served.function}: ${reason}`
  }
  const hasSchema = source !== undefined && options.contract !== 'http' // there it would describe whole requests
  const xtp = hasSchema ? await readXtpSchema(source, xtpSchema, refuse) : undefined
  const isKnown = xtp?.exports.has(served.function) === true
  if (!isKnown && describesItself(route)) return { route, guest: openSelfDescribed(route, notes), problem }
  if (xtp && !isKnown) refuse('it has no such export')
  const described = { options, functionName: served.function, pluginName: plugin.name }
  return { route, tool: openTool(route, describeTool(described, xtp)), problem }
}
