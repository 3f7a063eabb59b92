import { createHash } from 'node:crypto'
import { isObject } from '../platform/json-text.ts'
import type { RouteCaller } from '../route/callable-route.ts'
import type { Access, Grant } from './access.ts'
import type { Audit } from './audit.ts'
import type { Exchange } from './exchange.ts'
import { GuestMethods } from './guest-methods.ts'
import type { GuestServer, ListKind } from './guest-server.ts'
import { type Members, type Notification, type Request, RPC_CODES, RpcError } from './json-rpc.ts'
import type { ChangingList, ListVersions } from './list-changes.ts'
import { Pages } from './pages.ts'
import { InputRequired } from './questions.ts'
import { LEGACY_REVISIONS, META, MODERN_REVISIONS } from './revisions.ts'
import {
  isAboutTask,
  needTasks,
  TASKS_EXTENSION,
  type TaskHost,
  type Tasks,
  taskRequestOf,
  unknownTask,
} from './tasks.ts'
import type { Tool } from './tool.ts'
import { ToolBox } from './tool-box.ts'
import type { ToolNotes } from './tool-notes.ts'
import { renderMembers, type ToolResult } from './tool-result.ts'

/** What the server says about itself. */
interface ServerDescription {
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
  /** Lists whose changes a client can wait for. */
  changingLists(grant: Grant): ReadonlySet<ChangingList>

  /** What identifies the content of each list. @param others - Identifies everything else that decides about them. */
  versions(others: string): ListVersions

  /** Passes on what a client tells. Never throws. */
  notified(notification: Notification, grant: Grant, caller: RouteCaller): Promise<void>

  /**
   * @returns the result, as JSON.
   * @throws {@link RpcError} if the request is wrong, or its method unknown.
   */
  answer(request: Request, exchange: Exchange): Promise<string>

  /** What goes on with the calls of tasks. */
  readonly taskHost: TaskHost
}

/** What answers are made of. */
interface MethodParts {
  /** In the order of lists. Their names are different. */
  readonly tools: readonly Tool[]
  /** Plug-ins with tools of their own, which are listed after the others. */
  readonly guests: readonly GuestServer[]
  readonly access: Access
  readonly audit: Audit | undefined
  /** Whether clients can wait for changes of the lists. */
  readonly isChanging: boolean
  /** Receive warnings about names that are equal. */
  readonly notes: ToolNotes
  readonly tasks: Tasks
}

export function openMethods(description: ServerDescription, parts: MethodParts): Methods {
  return new AllMethods(description, parts)
}

class AllMethods implements Methods {
  readonly #description: ServerDescription
  readonly serverInfo: Members
  readonly #isChanging: boolean
  /** `_meta` of results. */
  readonly #meta: Members
  readonly #metaJson: string
  readonly #tools: ToolBox
  readonly #guestMethods: GuestMethods
  readonly #audit: Audit | undefined
  readonly #isLimited: boolean
  readonly #modernPages: Pages
  readonly #legacyPages: Pages
  readonly #tasks: Tasks
  readonly taskHost: TaskHost

  constructor(description: ServerDescription, parts: MethodParts) {
    const { tools, guests, access, audit, isChanging, notes, tasks } = parts
    const { name, version, title } = description
    this.#description = description
    this.serverInfo = { name, version, ...(title !== undefined && { title }) }
    this.#meta = { [META.serverInfo]: this.serverInfo }
    this.#metaJson = JSON.stringify(this.#meta)
    this.#tools = new ToolBox(tools, guests, access, notes, tasks)
    this.#guestMethods = new GuestMethods(guests, notes)
    this.#audit = audit
    this.#isChanging = isChanging
    this.#isLimited = access.isLimited
    this.#modernPages = this.#pagesOf(tools, true)
    this.#legacyPages = this.#pagesOf(tools, false)
    this.#tasks = tasks
    this.taskHost = {
      mayHaveTasks: this.#tools.mayHaveTasks,
      call: (message, exchange) => this.#tools.call(message, exchange),
      render: (result) => this.#render(result, true),
      ended: ({ message, exchange: { grant, caller } }, result, ms) => {
        const audited = { message, client: grant.client, request: caller.request }
        if (result instanceof RpcError) audit?.refused(audited, result)
        else audit?.answered(audited, result, ms)
      },
    }
  }

  changingLists(grant: Grant): ReadonlySet<ChangingList> {
    const lists = this.#featuresOf(grant).filter((name) => name !== 'completions')
    return new Set(this.#isChanging ? lists : [])
  }

  versions(others: string): ListVersions {
    const tools = JSON.stringify(this.#tools.own.map(({ listed }) => listed))
    return {
      tools: fingerprint(tools + others),
      prompts: fingerprint(others),
      resources: fingerprint(others),
    }
  }

  async notified({ method, params }: Notification, { isWhole }: Grant, caller: RouteCaller): Promise<void> {
    if (method !== 'notifications/roots/list_changed' || !isWhole) return
    await this.#guestMethods.rootsChanged(isObject(params._meta) ? params._meta : {}, caller)
  }

  async answer(request: Request, exchange: Exchange): Promise<string> {
    const { revision, caller, grant } = exchange
    const { isModern } = revision
    if (isAboutTask(request) && isModern && this.#tasks.mayExist) return this.#answerTask(request, exchange)
    const begun = performance.now()
    const result = await this.#resultOrQuestion(request, exchange)
    if (!result) {
      const message = `Method not found: ${request.method}`
      throw new RpcError(RPC_CODES.methodNotFound, message, isModern ? 404 : 200)
    }
    const audited = { message: request, client: grant.client, request: caller.request }
    this.#audit?.answered(audited, result, performance.now() - begun)
    return this.#render(result, isModern)
  }

  async #answerTask(request: Request, exchange: Exchange): Promise<string> {
    needTasks(exchange)
    const text = await this.#tasks.answer(taskRequestOf(request, exchange.grant.client))
    if (text === undefined) throw unknownTask()
    const members = request.method === 'tasks/get' ? [text.slice(1, -1)] : []
    return `{${['"resultType":"complete"', ...members, `"_meta":${this.#metaJson}`].join(',')}}`
  }

  /** The result, or the question of a guest to the client. */
  async #resultOrQuestion(request: Request, exchange: Exchange): Promise<Members | ToolResult | undefined> {
    try {
      return await this.#resultOf(request, exchange)
    } catch (error) {
      if (error instanceof InputRequired) return error.result
      throw error
    }
  }

  #render(result: Members | ToolResult, isModern: boolean): string {
    const own = isObject(result._meta) ? result._meta : undefined
    const meta = isModern ? { ...own, ...this.#meta } : own
    const parts = [
      isModern && !('resultType' in result) ? '"resultType":"complete"' : '',
      renderMembers(result, isModern),
      meta ? `"_meta":${own ? JSON.stringify(meta) : this.#metaJson}` : '',
    ]
    return `{${parts.filter((part) => part !== '').join(',')}}`
  }

  /** undefined: the revision has no such method. */
  #resultOf(
    request: Request,
    exchange: Exchange,
  ): Members | undefined | Promise<Members | ToolResult | undefined> {
    const { method, params } = request
    const { isModern } = exchange.revision
    switch (method) {
      case 'server/discover':
        return isModern ? this.#discover(exchange.grant) : undefined
      case 'initialize':
        return isModern ? undefined : this.#initialize(params, exchange)
      case 'ping':
        return isModern ? undefined : {}
      case 'tools/list':
        return this.#listTools(params, exchange)
      case 'tools/call':
        return this.#tools.call(request, exchange)
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

  #discover(grant: Grant): Members {
    const { instructions } = this.#description
    return {
      supportedVersions: MODERN_REVISIONS,
      capabilities: {
        ...this.#capabilities(grant, this.changingLists(grant)),
        logging: {},
        ...(this.#tools.mayHaveTasks && { extensions: { [TASKS_EXTENSION]: {} } }),
      },
      ...(instructions !== undefined && { instructions }),
      ...this.#caching,
    }
  }

  /** Prompts and the like have no rules: only clients that may use everything have them. */
  #featuresOf({ isWhole }: Grant): readonly ('tools' | GuestMethods['features'][number])[] {
    return ['tools', ...(isWhole ? this.#guestMethods.features : [])]
  }

  /** @param changing - Lists with a stream for changes. */
  #capabilities(grant: Grant, changing: ReadonlySet<string>): Members {
    const names = this.#featuresOf(grant)
    const all = (name: string) => ({ listChanged: true, ...(name === 'resources' && { subscribe: true }) })
    return Object.fromEntries(names.map((name) => [name, changing.has(name) ? all(name) : {}]))
  }

  /** A client that asks for an unknown revision gets the newest one, and decides. */
  #initialize({ protocolVersion }: Members, { grant, hasSession }: Exchange): Members {
    const { instructions } = this.#description
    const known = LEGACY_REVISIONS.find((name) => name === protocolVersion)
    return {
      protocolVersion: known ?? LEGACY_REVISIONS[0],
      capabilities: {
        ...this.#capabilities(grant, hasSession ? this.changingLists(grant) : NO_LISTS),
        ...(hasSession && { logging: {} }),
      },
      serverInfo: this.serverInfo,
      ...(instructions !== undefined && { instructions }),
    }
  }

  async #listTools({ cursor }: Members, exchange: Exchange): Promise<Members> {
    const { isModern } = exchange.revision
    const own = isModern ? this.#modernPages : this.#legacyPages
    const isStatic = this.#tools.isFixed && !this.#isLimited
    const pages = isStatic ? own : this.#pagesOf(await this.#tools.allowed(exchange), isModern)
    return this.#page('tools', pages, cursor, isModern)
  }

  #pagesOf(tools: readonly Tool[], isModern: boolean): Pages {
    return new Pages(
      isModern ? tools.map(({ listed }) => listed) : tools.map(legacyListed),
      this.#description.pageSize,
    )
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
}

/** The revisions with `initialize` have no streams for changes, and no levels, without a session. */
const NO_LISTS: ReadonlySet<string> = new Set()

function fingerprint(text: string): string {
  return createHash('sha256').update(text).digest('base64')
}

/** Revisions with `initialize` know only objects as structured results, and as schemas of properties. */
function legacyListed({ listed }: Tool): Members {
  const { inputSchema, outputSchema, ...rest } = listed
  const isKept = isObject(outputSchema) && outputSchema.type === 'object'
  return {
    ...rest,
    inputSchema: legacySchema(inputSchema),
    ...(isKept && { outputSchema: legacySchema(outputSchema) }),
  }
}

function legacySchema(schema: unknown): unknown {
  if (!isObject(schema) || !isObject(schema.properties)) return schema
  const entries = Object.entries(schema.properties)
  if (!entries.some(([, property]) => typeof property === 'boolean')) return schema
  const asObject = (property: unknown) =>
    property === true ? {} : property === false ? { not: {} } : property
  return {
    ...schema,
    properties: Object.fromEntries(entries.map(([name, property]) => [name, asObject(property)])),
  }
}
