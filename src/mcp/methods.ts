import { createHash } from 'node:crypto'
import { ScopeMissingError } from '../errors/errors.ts'
import type { Access } from './access.ts'
import type { openAudit } from './audit.ts'
import type { Exchange } from './exchange.ts'
import { GuestMethods } from './guest-methods.ts'
import type { GuestServer, ListKind } from './guest-server.ts'
import { isObject, type Members, type Request, RPC_CODES, RpcError } from './json-rpc.ts'
import type { ChangingList, ListVersions } from './list-changes.ts'
import { Pages } from './pages.ts'
import { checkParameterHeaders } from './parameter-headers.ts'
import { LEGACY_REVISIONS, META, MODERN_REVISIONS } from './revisions.ts'
import { claimsOf } from './token-claims.ts'
import type { Tool } from './tool.ts'
import { legacyResult, TextResult, type ToolResult } from './tool-result.ts'

/** What the server says about itself. */
export interface ServerDescription {
  readonly name: string
  readonly version: string
  readonly title: string | undefined
  /** Advice for models. */
  readonly instructions: string | undefined
  /** Tools per page of a list. */
  readonly pageSize: number
  /** Time for which clients may cache a list, in ms. */
  readonly ttlMs: number
}

/** Answers requests of MCP, independent of how they arrive. */
export interface Methods {
  readonly serverInfo: Members
  /** Lists whose changes clients can wait for. */
  readonly changingLists: ReadonlySet<ChangingList>

  /** What identifies the content of each list. @param others - Identifies everything else that decides about them. */
  versions(others: string): ListVersions

  /**
   * @returns the result, as JSON.
   * @throws {@link RpcError} if the request is wrong, or its method unknown.
   */
  answer(request: Request, exchange: Exchange): Promise<string>
}

/**
 * @param tools - In the order of lists. Their names are different.
 * @param guests - Plug-ins with tools of their own, which are listed after the others.
 * @param audit - Called with each call of a tool.
 * @param isChanging - Whether clients can wait for changes of the lists.
 */
export function openMethods(
  description: ServerDescription,
  tools: readonly Tool[],
  guests: readonly GuestServer[],
  access: Access,
  audit: ReturnType<typeof openAudit>,
  isChanging: boolean,
): Methods {
  return new AllMethods(description, tools, guests, access, audit, isChanging)
}

class AllMethods implements Methods {
  readonly #description: ServerDescription
  readonly serverInfo: Members
  readonly changingLists: ReadonlySet<ChangingList>
  /** `_meta` of results. */
  readonly #meta: Members
  readonly #metaJson: string
  readonly #ownTools: readonly Tool[]
  readonly #tools: ReadonlyMap<string, Tool>
  readonly #guests: readonly GuestServer[]
  readonly #guestMethods: GuestMethods
  readonly #scopeFor: Access['scopeFor']
  readonly #isLimited: boolean
  readonly #audit: ReturnType<typeof openAudit>
  readonly #modernPages: Pages
  readonly #legacyPages: Pages

  constructor(
    description: ServerDescription,
    tools: readonly Tool[],
    guests: readonly GuestServer[],
    { isLimited, scopeFor }: Access,
    audit: ReturnType<typeof openAudit>,
    isChanging: boolean,
  ) {
    const { name, version, title } = description
    this.#description = description
    this.serverInfo = { name, version, ...(title !== undefined && { title }) }
    this.#meta = { [META.serverInfo]: this.serverInfo }
    this.#metaJson = JSON.stringify(this.#meta)
    this.#ownTools = tools
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]))
    this.#guests = guests
    this.#guestMethods = new GuestMethods(guests)
    const { features } = this.#guestMethods
    const lists = features.filter((name) => name !== 'completions')
    this.changingLists = new Set(isChanging ? ['tools', ...lists] : [])
    this.#isLimited = isLimited
    this.#scopeFor = scopeFor
    this.#audit = audit
    this.#modernPages = this.#pagesOf(tools, true)
    this.#legacyPages = this.#pagesOf(tools, false)
  }

  versions(others: string): ListVersions {
    const tools = JSON.stringify(this.#ownTools.map(({ listed }) => listed))
    return {
      tools: fingerprint(tools + others),
      prompts: fingerprint(others),
      resources: fingerprint(others),
    }
  }

  async answer(request: Request, exchange: Exchange): Promise<string> {
    const { isModern } = exchange.revision
    const result = await this.#resultOf(request, exchange)
    if (!result) {
      const message = `Method not found: ${request.method}`
      throw new RpcError(RPC_CODES.methodNotFound, message, isModern ? 404 : 200)
    }
    return isModern ? this.#renderModern(result) : renderLegacy(result)
  }

  #renderModern(result: Members | ToolResult): string {
    if (result instanceof TextResult)
      return `{"resultType":"complete","content":${result.contentJson},"_meta":${this.#metaJson}}`
    const { _meta } = result
    const meta = isObject(_meta) ? { ..._meta, ...this.#meta } : this.#meta
    return JSON.stringify({ resultType: 'complete', ...result, _meta: meta })
  }

  /** undefined: the revision has no such method. */
  #resultOf(
    { method, params }: Request,
    exchange: Exchange,
  ): Members | undefined | Promise<Members | ToolResult | undefined> {
    const { isModern } = exchange.revision
    switch (method) {
      case 'server/discover':
        return isModern ? this.#discover() : undefined
      case 'initialize':
        return isModern ? undefined : this.#initialize(params)
      case 'ping':
        return isModern ? undefined : {}
      case 'tools/list':
        return this.#listTools(params, exchange)
      case 'tools/call':
        return this.#call(params, exchange)
      case 'resources/list':
        return this.#list('resources', params, exchange)
      case 'resources/templates/list':
        return this.#list('resourceTemplates', params, exchange)
      case 'prompts/list':
        return this.#list('prompts', params, exchange)
      default:
        return exchange.grant.isWhole ? this.#guestMethods.answer(method, params, exchange) : undefined
    }
  }

  #discover(): Members {
    const { instructions } = this.#description
    return {
      supportedVersions: MODERN_REVISIONS,
      capabilities: { ...this.#capabilities(true), logging: {} },
      ...(instructions !== undefined && { instructions }),
      ...this.#caching,
    }
  }

  /** @param canListen - Whether the revision has streams for changes. */
  #capabilities(canListen: boolean): Members {
    const names = ['tools', ...this.#guestMethods.features] as const
    const isChanging = (name: string) => canListen && [...this.changingLists].some((list) => list === name)
    return Object.fromEntries(names.map((name) => [name, isChanging(name) ? { listChanged: true } : {}]))
  }

  /** A client that asks for an unknown revision gets the newest one, and decides. */
  #initialize({ protocolVersion }: Members): Members {
    const { instructions } = this.#description
    const known = LEGACY_REVISIONS.find((name) => name === protocolVersion)
    return {
      protocolVersion: known ?? LEGACY_REVISIONS[0],
      capabilities: this.#capabilities(false),
      serverInfo: this.serverInfo,
      ...(instructions !== undefined && { instructions }),
    }
  }

  async #listTools({ cursor }: Members, exchange: Exchange): Promise<Members> {
    const { isModern } = exchange.revision
    const own = isModern ? this.#modernPages : this.#legacyPages
    const isStatic = this.#guests.length === 0 && !this.#isLimited
    const pages = isStatic ? own : this.#pagesOf(await this.#toolsFor(exchange), isModern)
    return this.#page('tools', pages, cursor, isModern)
  }

  #pagesOf(tools: readonly Tool[], isModern: boolean): Pages {
    return new Pages(
      isModern ? tools.map(({ listed }) => listed) : tools.map(legacyListed),
      this.#description.pageSize,
    )
  }

  async #toolsFor(exchange: Exchange): Promise<readonly Tool[]> {
    const tools = await this.#allTools(exchange)
    return tools.filter(({ name }) => exchange.grant.allows(name))
  }

  /** Of several tools with the same name, the first one counts. */
  async #allTools(exchange: Exchange): Promise<readonly Tool[]> {
    const lists = await Promise.all(this.#guests.map((guest) => guest.tools(exchange)))
    const all = new Map<string, Tool>()
    for (const tool of [...this.#ownTools, ...lists.flat()]) if (!all.has(tool.name)) all.set(tool.name, tool)
    return [...all.values()]
  }

  async #list(
    kind: 'resources' | 'resourceTemplates' | 'prompts',
    { cursor }: Members,
    exchange: Exchange,
  ): Promise<Members | undefined> {
    const entries = exchange.grant.isWhole ? await this.#guestMethods.list(kind, exchange) : undefined
    if (!entries) return undefined
    return this.#page(
      kind,
      new Pages(entries, this.#description.pageSize),
      cursor,
      exchange.revision.isModern,
    )
  }

  #page(kind: ListKind, pages: Pages, cursor: unknown, isModern: boolean): Members {
    const { items, nextCursor } = pages.at(cursor)
    return {
      [kind]: items,
      ...(nextCursor !== undefined && { nextCursor }),
      ...(isModern && this.#caching),
    }
  }

  get #caching(): Members {
    return { ttlMs: this.#description.ttlMs, cacheScope: this.#isLimited ? 'private' : 'public' }
  }

  /** Not an async function: the most frequent request is one with a tool of its own. */
  #call(params: Members, exchange: Exchange): Promise<ToolResult> {
    const { name } = params
    const own = typeof name === 'string' ? this.#tools.get(name) : undefined
    if (own || this.#guests.length === 0) return this.#callTool(own, params, exchange)
    return this.#findGuestTool(name, exchange).then((tool) => this.#callTool(tool, params, exchange))
  }

  /** @throws {@link RpcError} if the client may not call it, or the arguments are no object. */
  #callTool(
    tool: Tool | undefined,
    { name, arguments: args = {} }: Members,
    exchange: Exchange,
  ): Promise<ToolResult> {
    if (!tool || !exchange.grant.allows(tool.name)) {
      if (tool) this.#refuse(tool.name, exchange)
      throw invalidParams(`Unknown tool: ${String(name).slice(0, 128)}`)
    }
    if (!isObject(args)) throw invalidParams('the arguments must be an object')
    const { revision, headers } = exchange
    if (revision.isModern && headers) checkParameterHeaders(tool.headers, args, headers)
    return this.#audit ? this.#callAudited(tool, args, exchange, this.#audit) : tool.call(args, exchange)
  }

  async #callAudited(
    tool: Tool,
    args: Members,
    exchange: Exchange,
    audit: NonNullable<ReturnType<typeof openAudit>>,
  ): Promise<ToolResult> {
    const begun = performance.now()
    const result = await tool.call(args, exchange)
    const ms = performance.now() - begun
    const { caller, grant, meta } = exchange
    const { client } = grant
    audit({
      ...{ tool: tool.name, args, client, request: caller.request },
      ...{ agent: meta[META.clientInfo], ms, result },
    })
    return result
  }

  /**
   * A client with a token can ask its issuer for another scope. For others the tool does not exist.
   *
   * @throws {@link RpcError} with the scope, if the client has a token.
   */
  #refuse(tool: string, { caller }: Exchange): void {
    const scope = claimsOf(caller.request) && this.#scopeFor(tool)
    if (scope === undefined) return
    const { message, code, statusCode } = new ScopeMissingError(tool, scope)
    throw new RpcError(RPC_CODES.invalidRequest, message, statusCode, { code }, scope)
  }

  async #findGuestTool(name: unknown, exchange: Exchange): Promise<Tool | undefined> {
    return (await this.#allTools(exchange)).find((tool) => tool.name === name)
  }
}

function fingerprint(text: string): string {
  return createHash('sha256').update(text).digest('base64')
}

function invalidParams(message: string): RpcError {
  return new RpcError(RPC_CODES.invalidParams, message, 200)
}

function renderLegacy(result: Members | ToolResult): string {
  if (result instanceof TextResult) return `{"content":${result.contentJson}}`
  return JSON.stringify(legacyResult(result))
}

/** Revisions with `initialize` know only objects as structured results. */
function legacyListed({ listed }: Tool): Members {
  const { outputSchema, ...rest } = listed
  return isObject(outputSchema) && outputSchema.type !== 'object' ? rest : listed
}
