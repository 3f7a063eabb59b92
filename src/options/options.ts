import { METHODS } from 'node:http'
import { isIP } from 'node:net'
import { headerProblem } from '../contract/answer-headers.ts'
import type { Contract } from '../contract/contract.ts'
import { OptionsError } from '../errors/errors.ts'
import type { HostFunctions } from '../guest/host-functions.ts'
import { redisUrlProblem } from '../guest/store/redis-url.ts'
import { optionsWhere, STREAM_LIMITS } from './facts.ts'
import {
  type CheckedLoadData,
  type CheckedRouteData,
  type CheckedServerData,
  type CheckedWasmServeData,
  loadSchema,
  type RouteData,
  type ServerData,
  serverSchema,
  type WasmServeData,
  wasmServeSchema,
} from './options-schema.ts'
import { checkValue, type Problem, problemAt } from './schema.ts'
import { type CallHooks, methodsOfAll } from './served-route.ts'

/** A route: a URL bound to one export of a plug-in. */
export type RouteOptions = WithCode<RouteData>

/** Options of the Fastify plugin. */
export type WasmServeOptions = WithRoutes<WasmServeData, RouteOptions>

/** Options of the server. */
export type ServerOptions = WithRoutes<ServerData, RouteOptions>

/** Options of {@link createServer}: with `admin`, `adminToken` is required. */
export type CreateServerOptions = ServerOptions

/** JSON Schema cannot describe functions. */
type WithCode<Route> = {
  [Key in keyof Route]: Key extends 'functions'
    ? string | HostFunctions
    : Key extends 'contract'
      ? Extract<Route[Key], string> | Contract
      : Key extends keyof CallHooks
        ? CallHooks[Key]
        : Route[Key]
}

type WithRoutes<Options, Route> = Omit<Options, 'routes' | keyof CallHooks> & CallHooks & { routes: Route[] }

export type CheckedRouteOptions = WithCode<CheckedRouteData>
export type CheckedWasmServeOptions = WithRoutes<CheckedWasmServeData, CheckedRouteOptions>
export type CheckedServerOptions = WithRoutes<CheckedServerData, CheckedRouteOptions>
export type CheckedLoadOptions = CheckedLoadData

/**
 * Checks the options of the Fastify plugin; the caller's object is not changed.
 *
 * @throws {@link OptionsError} listing every problem; `problems` holds them as data.
 */
export function checkWasmServeOptions(options: unknown): CheckedWasmServeOptions {
  return checkWith<CheckedWasmServeOptions>(wasmServeSchema, options)
}

/**
 * Checks the options of the server; the caller's object is not changed.
 *
 * @throws {@link OptionsError} listing every problem; `problems` holds them as data.
 */
export function checkServerOptions(options: unknown): CheckedServerOptions {
  return checkWith<CheckedServerOptions>(serverSchema, options)
}

/**
 * Checks the options of {@link createServer}; the caller's object is not changed.
 *
 * @throws {@link OptionsError} listing every problem, including options without effect.
 */
export function checkCreateServerOptions(options: unknown): CheckedServerOptions {
  const { admin, adminToken } = { ...(options as Partial<ServerOptions> | undefined) }
  const entries = Object.entries({ ...(options as object | undefined) })
  const found = entries.flatMap(([name, value]) =>
    value !== undefined && admin === undefined && NEEDING_ADMIN.has(name)
      ? [{ ...problemAt([name], 'has no effect without the option admin'), ofKey: true }]
      : [],
  )
  if (admin !== undefined && adminToken === undefined)
    found.push({
      ...problemAt(['adminToken'], 'is required: a generated token would not be shown'),
      ofKey: false,
    })
  const { processes, fleet } = { ...(options as Partial<ServerOptions> | undefined) }
  for (const [name, value] of Object.entries({ processes, fleet }))
    if (value) found.push({ ...problemAt([name], 'is an option of the command'), ofKey: true })
  if (found.length === 0) return checkServerOptions(options)
  try {
    checkServerOptions(options)
  } catch (error) {
    if (error instanceof OptionsError) found.push(...problemsOf(error))
  }
  throw optionsError(found)
}

const NEEDING_ADMIN = optionsWhere('server', ({ needs }) => needs === 'admin')

/**
 * Checks the options for loading plug-ins.
 *
 * @throws {@link OptionsError} listing every problem; `problems` holds them as data.
 */
export function checkLoadOptions(options: unknown): CheckedLoadOptions {
  return checkWith<CheckedLoadOptions>(loadSchema, options)
}

/** The problems that an {@link OptionsError} lists. */
export function problemsOf(error: InstanceType<typeof OptionsError>): readonly Problem[] {
  return problems.get(error) ?? []
}

const problems = new WeakMap<object, readonly Problem[]>()

function checkWith<Options>(schema: object, options: unknown): Options {
  const found: Problem[] = []
  const copy = checkValue(options, schema, found)
  if (found.length === 0)
    found.push(
      ...urlProblems(copy as Partial<CheckedWasmServeOptions>),
      ...headerProblems(copy as Partial<CheckedWasmServeOptions>),
      ...isolationProblems(copy as Partial<CheckedWasmServeOptions>),
      ...edgeProblems(copy as Partial<CheckedServerOptions>),
      ...toolProblems(copy as Partial<CheckedWasmServeOptions>),
      ...mcpProblems(copy as Partial<CheckedServerOptions>),
      ...webSocketProblems(copy as Partial<CheckedWasmServeOptions>),
    )
  if (found.length > 0) throw optionsError(found)
  settleTools(copy as Partial<CheckedWasmServeOptions>)
  return copy as Options
}

/** Contracts whose routes are tools unless they say otherwise. */
const TOOL_CONTRACTS: readonly unknown[] = ['raw', 'hyper-mcp']

/** Contracts whose guests can be called with the arguments of a tool. */
const POSSIBLE_TOOL_CONTRACTS: readonly unknown[] = [...TOOL_CONTRACTS, 'http']

/** Deletes `mcp` and `tool` where they are not enabled. */
function settleTools(options: Partial<CheckedWasmServeOptions>): void {
  if (options.mcp?.enabled === false) delete options.mcp
  for (const route of options.routes ?? []) {
    const isTool = route.tool?.enabled ?? TOOL_CONTRACTS.includes(route.contract)
    if (options.mcp && isTool) route.tool = { ...route.tool, enabled: true }
    else delete route.tool
  }
}

function toolProblems({ routes = [], mcp }: Partial<CheckedWasmServeOptions>): Problem[] {
  const isOn = mcp !== undefined && mcp.enabled !== false
  const message = `must be false: only a route with the contract ${POSSIBLE_TOOL_CONTRACTS.join(' or ')} can be a tool`
  return routes.flatMap(({ tool, contract, smoke }, index) => {
    const path = ['routes', String(index)]
    if (contract === 'hyper-mcp' && smoke)
      return [
        problemAt([...path, 'smoke'], 'has no effect: with the contract hyper-mcp the route has no URL'),
      ]
    if (contract === 'hyper-mcp' && !isOn) return [problemAt([...path, 'contract'], 'needs the option mcp')]
    if (tool?.prefix !== undefined && contract !== 'hyper-mcp')
      return [problemAt([...path, 'tool', 'prefix'], 'has no effect without the contract hyper-mcp')]
    return tool?.enabled && !POSSIBLE_TOOL_CONTRACTS.includes(contract)
      ? [problemAt([...path, 'tool', 'enabled'], message)]
      : []
  })
}

/** A handshake is a GET, and a smoke request is none. */
function webSocketProblems({ routes = [] }: Partial<CheckedWasmServeOptions>): Problem[] {
  return routes.flatMap((route, index) => {
    const { contract, method, smoke } = route
    if (contract !== 'websocket') return []
    const problem = (option: string, message: string) => problemAt(['routes', String(index), option], message)
    const isGet = method === undefined || [method].flat().join() === 'GET'
    const unlimited = STREAM_LIMITS.filter((name) => route[name] === 0)
    return [
      ...(isGet ? [] : [problem('method', 'must be GET with the contract websocket')]),
      ...(smoke ? [problem('smoke', 'has no effect with the contract websocket')] : []),
      ...unlimited.map((name) => problem(name, 'must be 1 or more with the contract websocket')),
    ]
  })
}

/** The error for problems that depend on the plug-in. */
export function optionsError(found: readonly Problem[]): InstanceType<typeof OptionsError> {
  const error = new OptionsError(found.map(({ option, message }) => `  ${option}: ${message}`).join('\n'))
  problems.set(error, found)
  return error
}

/** Reports URLs that no request has. What follows the regular expression of a parameter, in parentheses, is not checked. */
function urlProblems({ routes = [] }: Partial<CheckedWasmServeOptions>): Problem[] {
  return routes.flatMap(({ url }, index) => {
    const [plain = ''] = url.replaceAll('::', '').split('(', 1)
    const problem = /\?.|#/.test(plain)
      ? 'must have no query and no fragment: a route answers with any query'
      : /:(?!\w)/.test(plain)
        ? 'has a parameter without a name: write :id, or :: for a colon'
        : undefined
    return problem === undefined ? [] : [problemAt(['routes', String(index), 'url'], problem)]
  })
}

/** Checks beyond the schema: the headers of an answer. */
function headerProblems({ routes = [] }: Partial<CheckedWasmServeOptions>): Problem[] {
  return routes.flatMap(({ headers }, index) =>
    Object.entries(headers).flatMap(([name, value]) => {
      const isType = name.toLowerCase() === 'content-type'
      const message = isType ? 'must be set by the option contentType' : headerProblem(name, value)
      return message === undefined ? [] : [problemAt(['routes', String(index), 'headers', name], message)]
    }),
  )
}

/** Reports options without effect. */
function isolationProblems({ routes = [] }: Partial<CheckedWasmServeOptions>): Problem[] {
  const message =
    'has no effect with isolation fresh, where each call has its own instance: remove one of them'
  return routes.flatMap(({ isolation, recycle }, index) =>
    isolation === 'fresh' && recycle !== undefined
      ? [problemAt(['routes', String(index), 'recycle'], message)]
      : [],
  )
}

/** A rule that has no effect would look like protection. */
function mcpProblems({ mcp, apiKeys, jwt }: Partial<CheckedServerOptions>): Problem[] {
  if (!mcp || mcp.enabled === false) return []
  const { access = [], toolsOnly, authorizationServers, resource } = mcp
  const rules = access.flatMap(({ key, scope }, index) => {
    const path = ['mcp', 'access', String(index)]
    return [
      ...(key !== undefined && scope !== undefined ? [problemAt(path, 'must have a key or a scope')] : []),
      ...(key !== undefined && apiKeys && !apiKeys.includes(key)
        ? [problemAt([...path, 'key'], 'must be one of apiKeys')]
        : []),
      ...(scope !== undefined && !jwt ? [problemAt([...path, 'scope'], 'needs the option jwt')] : []),
    ]
  })
  const isOpen = access.length > 0 && !toolsOnly
  const hasIssuer = authorizationServers !== undefined
  return [
    ...rules,
    ...(isOpen ? [problemAt(['mcp', 'access'], 'needs toolsOnly: the routes have no such rules')] : []),
    ...(hasIssuer && !jwt?.audience
      ? [problemAt(['mcp', 'authorizationServers'], 'needs jwt.audience: tokens for others must be refused')]
      : []),
    ...(hasIssuer && resource === undefined
      ? [problemAt(['mcp', 'authorizationServers'], 'needs resource')]
      : []),
  ]
}

/** A Unix socket needs no TLS. Browsers support HTTP/2 with TLS only, and so does this server. */
function edgeProblems(options: Partial<CheckedServerOptions>): Problem[] {
  const { socket, tls, http2, jwt, cors, reusePort, trustProxy = [] } = options
  return [
    ...Object.keys(options)
      .filter((name) => NEEDING_PROCESSES.has(name) && !options.processes)
      .map((name) => problemAt([name], 'has no effect without processes')),
    ...listenerProblems(options),
    ...fleetProblems(options),
    ...(jwt ? jwtProblems(jwt) : []),
    ...(cors?.credentials ? corsProblems(cors) : []),
    ...staticProblems(options),
    ...trustProxy.flatMap((proxy, index) =>
      isNetwork(proxy) ? [] : [problemAt(['trustProxy', String(index)], `must be an address, ${NETWORKS}`)],
    ),
    ...(socket !== undefined && tls ? [problemAt(['tls'], 'has no effect with a Unix socket')] : []),
    ...(socket !== undefined && reusePort
      ? [problemAt(['reusePort'], 'has no effect with a Unix socket')]
      : []),
    ...(http2 && !tls ? [problemAt(['http2'], 'needs tls: HTTP/2 without TLS (h2c) is not supported')] : []),
  ]
}

/** Two listeners of one process cannot have the same address. */
function listenerProblems({ socket, ...options }: Partial<CheckedServerOptions>): Problem[] {
  const { host = '', port, admin, probes } = options
  const own = socket === undefined ? { host, port: String(port) } : { path: socket }
  const all = [
    { name: 'port', at: own },
    ...Object.entries({ admin, probes }).flatMap(([name, address]) =>
      address === undefined ? [] : [{ name, at: listenerAt(address) }],
    ),
  ]
  return all.flatMap(({ name, at }, index) => {
    const other = all.slice(0, index).find((each) => areSame(each.at, at))
    if (!other) return []
    const taken = at.path ?? `port ${at.port}`
    const whose = other.name === 'port' ? 'the server itself' : `"${other.name}"`
    return [problemAt([name], `${taken} is already that of ${whose}: choose another`)]
  })
}

/** Where a listener listens. */
interface ListenerAt {
  readonly host?: string
  readonly port?: string
  /** Of a Unix socket. */
  readonly path?: string
}

/** The place of `admin` or `probes`: see `parseOperatorAddress`. */
function listenerAt(address: string): ListenerAt {
  if (address.includes('/')) return { path: address }
  const end = address.lastIndexOf(':')
  return { host: end < 0 ? '127.0.0.1' : address.slice(0, end), port: address.slice(end + 1) }
}

function areSame(one: ListenerAt, other: ListenerAt): boolean {
  if (one.path !== undefined || other.path !== undefined) return one.path === other.path
  if (one.port !== other.port || one.port === '0') return false
  const [first, second] = [one, other].map(({ host = '' }) => host.replace('localhost', '127.0.0.1'))
  return first === second || [first, second].some((host) => /^(?:0\.0\.0\.0|\[?::\]?)$/.test(host ?? ''))
}

const NEEDING_PROCESSES = optionsWhere('server', ({ needs }) => needs === 'processes')

/** The nodes of a fleet change together: none follows files or tags by itself. */
function fleetProblems({ fleet, watch }: Partial<CheckedServerOptions>): Problem[] {
  if (!fleet) return []
  const problem = redisUrlProblem(fleet.url)
  return [
    ...(problem === undefined ? [] : [problemAt(['fleet', 'url'], problem)]),
    ...(watch ? [problemAt(['watch'], 'is not possible in a fleet: use wasm-serve fleet apply')] : []),
    ...(fleet.canaryNodes !== undefined && fleet.canaryPercent !== undefined
      ? [problemAt(['fleet', 'canaryPercent'], 'must not be given with canaryNodes')]
      : []),
    ...(fleet.allow?.env ?? []).flatMap((name, index) =>
      /^(?:WASM_SERVE|OTEL)_/i.test(name)
        ? [problemAt(['fleet', 'allow', 'env', String(index)], 'must not be WASM_SERVE_* or OTEL_*')]
        : [],
    ),
  ]
}

function jwtProblems(jwt: NonNullable<CheckedServerOptions['jwt']>): Problem[] {
  const { secret, publicKey, jwks, jwksUrl, jwksCa, algorithms = [] } = jwt
  const entries = [secret, publicKey, jwks, jwksUrl].filter((key) => key !== undefined)
  if (entries.length !== 1)
    return [problemAt(['jwt'], 'must have one of secret, publicKey, jwks and jwksUrl')]
  if (jwksCa !== undefined && jwksUrl === undefined)
    return [problemAt(['jwt', 'jwksCa'], 'has no effect without jwksUrl')]
  const problem = jwksUrl === undefined ? undefined : problemWithJwksUrl(jwksUrl)
  if (problem !== undefined) return [problemAt(['jwt', 'jwksUrl'], problem)]
  const misfit = algorithms.findIndex((name) => name.startsWith('HS') !== (secret !== undefined))
  if (misfit < 0) return []
  const message =
    secret === undefined ? 'needs a secret, not a public key' : 'needs a public key, not a secret'
  return [problemAt(['jwt', 'algorithms', String(misfit)], message)]
}

/** An attacker who changes the keys in transit can sign tokens: http is rejected, even on this machine. */
function problemWithJwksUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return 'must be a URL'
  const { protocol, username, password, hash, port } = new URL(text)
  if (protocol !== 'https:')
    return 'must be an https URL: an attacker who changes the keys in transit can sign tokens'
  if (username !== '' || password !== '')
    return 'must not contain credentials: a set of public keys needs none'
  if (port === '0') return 'must have another port: port 0 is not valid'
  return hash === '' ? undefined : 'must have no fragment ("#")'
}

/** An origin that may read answers to requests with cookies acts as the user: only named origins may do so. */
function corsProblems({ origin }: NonNullable<CheckedServerOptions['cors']>): Problem[] {
  return origin.flatMap((text, index) => {
    // Any page can get the origin `null`, by a frame with the attribute `sandbox`.
    const isAny = text.includes('*') || text.trim().toLowerCase() === 'null'
    const message = `${text} cannot be combined with credentials: name each origin, or remove credentials`
    return isAny ? [problemAt(['cors', 'origin', String(index)], message)] : []
  })
}

/** Both would have the same URL; elsewhere routes take precedence. */
function staticProblems({ static: folders = {}, routes = [] }: Partial<CheckedServerOptions>): Problem[] {
  const methodsOf = methodsOfAll(routes, METHODS)
  return Object.keys(folders).flatMap((prefix) => {
    const url = `${prefix.replace(/\/$/, '')}/*`
    const route = routes.find((each) => each.url === url && methodsOf(each).includes('GET'))
    const message = `the route ${url} also serves GET there: change one URL`
    return route ? [problemAt(['static', prefix], message)] : []
  })
}

const NETWORKS = 'a network such as 10.0.0.0/8, loopback, linklocal or uniquelocal'

function isNetwork(text: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true
  const [, address = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const family = isIP(address)
  return family !== 0 && (bits === undefined || Number(bits) <= (family === 4 ? 32 : 128))
}
