import type { RouteCaller } from '../route/callable-route.ts'
import { isObject, type Members, type Request, RPC_CODES, RpcError } from './json-rpc.ts'
import { type Page, Pages } from './pages.ts'
import { checkParameterHeaders } from './parameter-headers.ts'
import { LEGACY_REVISIONS, META, MODERN_REVISIONS, type RequestHeaders, type Revision } from './revisions.ts'
import type { Tool } from './tool.ts'
import { legacyResult } from './tool-result.ts'

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

/** The request of a client, as far as it matters for the answer. */
export interface Exchange {
  readonly revision: Revision
  readonly headers: RequestHeaders
  readonly caller: RouteCaller
}

/** Answers requests of MCP, independent of how they arrive. */
export interface Methods {
  /**
   * @returns the result.
   * @throws {@link RpcError} if the request is wrong, or its method unknown.
   */
  answer(request: Request, exchange: Exchange): Promise<Members>
}

/** @param tools - In the order of lists. Their names are different. */
export function openMethods(description: ServerDescription, tools: readonly Tool[]): Methods {
  return new ToolMethods(description, tools)
}

class ToolMethods implements Methods {
  readonly #description: ServerDescription
  readonly #serverInfo: Members
  readonly #tools: ReadonlyMap<string, Tool>
  readonly #modernPages: Pages
  readonly #legacyPages: Pages

  constructor(description: ServerDescription, tools: readonly Tool[]) {
    const { name, version, title, pageSize } = description
    this.#description = description
    this.#serverInfo = { name, version, ...(title !== undefined && { title }) }
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]))
    this.#modernPages = new Pages(
      tools.map(({ listed }) => listed),
      pageSize,
    )
    this.#legacyPages = new Pages(tools.map(legacyListed), pageSize)
  }

  async answer(request: Request, exchange: Exchange): Promise<Members> {
    const { isModern } = exchange.revision
    const result = await this.#resultOf(request, exchange)
    if (!result) {
      const message = `Method not found: ${request.method}`
      throw new RpcError(RPC_CODES.methodNotFound, message, isModern ? 404 : 200)
    }
    if (!isModern) return result
    const { _meta } = result
    const meta = { ...(isObject(_meta) && _meta), [META.serverInfo]: this.#serverInfo }
    return { resultType: 'complete', ...result, _meta: meta }
  }

  /** undefined: the revision has no such method. */
  #resultOf(request: Request, exchange: Exchange): Members | undefined | Promise<Members> {
    const { isModern } = exchange.revision
    switch (request.method) {
      case 'server/discover':
        return isModern ? this.#discover() : undefined
      case 'initialize':
        return isModern ? undefined : this.#initialize(request.params)
      case 'ping':
        return isModern ? undefined : {}
      case 'tools/list':
        return this.#list(request.params, isModern)
      case 'tools/call':
        return this.#call(request.params, exchange)
      default:
        return undefined
    }
  }

  #discover(): Members {
    const { instructions } = this.#description
    return {
      supportedVersions: MODERN_REVISIONS,
      capabilities: { tools: {}, logging: {} },
      ...(instructions !== undefined && { instructions }),
      ...this.#caching,
    }
  }

  /** A client that asks for an unknown revision gets the newest one, and decides. */
  #initialize({ protocolVersion }: Members): Members {
    const { instructions } = this.#description
    const known = LEGACY_REVISIONS.find((name) => name === protocolVersion)
    return {
      protocolVersion: known ?? LEGACY_REVISIONS[0],
      capabilities: { tools: {} },
      serverInfo: this.#serverInfo,
      ...(instructions !== undefined && { instructions }),
    }
  }

  #list({ cursor }: Members, isModern: boolean): Members {
    const page: Page = (isModern ? this.#modernPages : this.#legacyPages).at(cursor)
    const { items, nextCursor } = page
    return {
      tools: items,
      ...(nextCursor !== undefined && { nextCursor }),
      ...(isModern && this.#caching),
    }
  }

  get #caching(): Members {
    return { ttlMs: this.#description.ttlMs, cacheScope: 'public' }
  }

  async #call(params: Members, { revision, headers, caller }: Exchange): Promise<Members> {
    const { name, arguments: args = {} } = params
    const tool = typeof name === 'string' ? this.#tools.get(name) : undefined
    if (!tool) throw invalidParams(`Unknown tool: ${String(name).slice(0, 128)}`)
    if (!isObject(args)) throw invalidParams('the arguments must be an object')
    if (revision.isModern && headers) checkParameterHeaders(tool.headers, args, headers)
    const result = await tool.call(args, caller)
    return { ...(revision.isModern ? result : legacyResult(result)) }
  }
}

function invalidParams(message: string): RpcError {
  return new RpcError(RPC_CODES.invalidParams, message, 200)
}

/** Revisions with `initialize` know only objects as structured results. */
function legacyListed({ listed }: Tool): Members {
  const { outputSchema, ...rest } = listed
  return isObject(outputSchema) && outputSchema.type !== 'object' ? rest : listed
}
