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
import { RunningRequests } from './running-requests.ts'
import { describesItself, isDescription, openSelfDescribed } from './self-described.ts'
import { openTool, type Tool } from './tool.ts'

export { ListChanges, newStateSecret, RunningRequests }

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
}

/**
 * Serves routes as tools at one URL of an app. Call it after the routes were added.
 *
 * @param routes - The routes that are tools.
 * @returns what identifies the content of the lists.
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
  }: McpHost,
): Promise<ListVersions> {
  const isGuestServer = ({ options: { contract } }: CallableRoute) => contract === 'hyper-mcp'
  const described = routes.filter((route) => !isGuestServer(route) && !isDescription(route))
  const conflicts = toolConflicts(
    described.map(({ options: { tool, url }, served }) => ({ tool, url, functionName: served.function })),
  )
  if (conflicts.length > 0) throw new ToolConflictError(conflicts.join('\n'))
  const { title, instructions, version = packageVersion(), hosts = [], origins = [] } = options
  const { url, name, pageSize, ttlMs, bodyLimit } = { ...MCP_DEFAULTS, ...options }
  const { access: rules, rateLimit, resource, authorizationServers, audit: auditLevel = 'calls' } = options
  const { redactArguments: redact = REDACTED } = options
  const access = openAccess(rules, apiKeys)
  const opened = await Promise.all(described.map(openRouteTool))
  const rates = rateLimit && new ClientRates(rateLimit, counter)
  const states = new RequestStates(options.stateSecret ?? stateSecret)
  const audit = openAudit({ level: auditLevel, redact })
  const methods = openMethods(
    { name, version, title, instructions, pageSize, ttlMs },
    opened.flatMap(({ tool }) => tool ?? []),
    [
      ...opened.flatMap(({ guest }) => guest ?? []),
      ...routes.filter(isGuestServer).map((route) => openHyperMcp(route, ttlMs, changes)),
    ],
    access,
    audit,
    changes !== undefined,
  )
  const isFound = resource !== undefined && authorizationServers !== undefined
  const findable = isFound ? resource : undefined
  const scopes = [...new Set(rules?.flatMap(({ scope }) => scope ?? []))]
  addEndpoint(
    app,
    { url, hosts, origins, bodyLimit, resource: findable, scopes, isUnwatched },
    { methods, access, rates, changes, audit, states, running },
  )
  if (isFound) addMetadata(app, { resource, authorizationServers, scopes })
  const isDynamic = (route: CallableRoute) => isGuestServer(route) || describesItself(route)
  const guests = routes
    .filter(isDynamic)
    .map(({ plugin, options: { url, tool } }) => [url, plugin.digest, tool])
  return methods.versions(JSON.stringify([rules, guests]))
}

/** @returns the tool, or the guest that describes it. */
async function openRouteTool(route: CallableRoute): Promise<{ tool?: Tool; guest?: GuestServer }> {
  const { source, xtpSchema } = route
  const hasSchema = source !== undefined && route.options.contract !== 'http' // there it would describe whole requests
  const xtp = !hasSchema ? undefined : await readXtpSchema(source, xtpSchema)
  const { options, served, plugin } = route
  if (!xtp?.exports.has(served.function) && describesItself(route)) return { guest: openSelfDescribed(route) }
  const described = { options, functionName: served.function, pluginName: plugin.name }
  return { tool: openTool(route, describeTool(described, xtp)) }
}
