import type { FastifyBaseLogger } from 'fastify'
import { ToolResultInvalidError } from '../errors/errors.ts'
import { isObject } from '../platform/json-text.ts'
import type { CallableRoute } from '../route/callable-route.ts'
import { knownError, logFailure } from '../route/error-response.ts'
import { type DescribedRoute, describeTool } from './description.ts'
import type { Exchange } from './exchange.ts'
import { type GuestLists, type GuestServer, lastingCaller } from './guest-server.ts'
import { type Members, parseJson, RPC_CODES, RpcError } from './json-rpc.ts'
import { read, SHAPES } from './shapes.ts'
import { openTool, type Tool } from './tool.ts'
import type { ToolNotes } from './tool-notes.ts'

/** What a plug-in says about a function. */
type Entry = NonNullable<DescribedRoute['options']['tool']>

/** The export with which a plug-in describes its functions. */
const DESCRIBING_EXPORT = 'describe'

/** Whether a plug-in describes the function of a route itself. */
export function describesItself({ plugin, served }: Pick<CallableRoute, 'plugin' | 'served'>): boolean {
  const isDescribing = plugin.functions.some(({ name }) => name === DESCRIBING_EXPORT)
  return isDescribing && served.function !== DESCRIBING_EXPORT
}

/** Whether a route is the description, and not a tool. */
export function isDescription({ plugin, served }: Pick<CallableRoute, 'plugin' | 'served'>): boolean {
  return served.function === DESCRIBING_EXPORT && plugin.functions.length > 1
}

/**
 * Opens a tool that its plug-in describes: the export `describe` returns `{"tools": [...]}` with entries as in `tools/list`, of which
 * the one with the name of the function counts, or the only one. Called on the first request for it. Options take
 * precedence. If it fails, the tool is one without a description.
 */
export function openSelfDescribed(route: CallableRoute, notes: ToolNotes): GuestServer {
  return new SelfDescribed(route, notes)
}

class SelfDescribed implements GuestServer {
  readonly #route: CallableRoute
  readonly #plain: Tool
  readonly #notes: ToolNotes
  #tools: Promise<readonly Tool[]> | undefined

  constructor(route: CallableRoute, notes: ToolNotes) {
    this.#route = route
    this.#notes = notes
    this.#plain = this.#toolOf({})
  }

  get mayHaveTasks(): boolean {
    return this.#plain.task !== undefined
  }

  get plugin(): string {
    return this.#route.plugin.name
  }

  has(): boolean {
    return false
  }

  tools(exchange: Exchange): Promise<readonly Tool[]> {
    this.#tools ??= this.#describe(exchange)
    return this.#tools
  }

  async list(): Promise<readonly Members[]> {
    return []
  }

  async answer(method: string): Promise<Members> {
    throw new RpcError(RPC_CODES.methodNotFound, `Method not found: ${method}`, 200)
  }

  forget(): void {
    // such plug-ins have no lists
  }

  async rootsChanged(): Promise<void> {
    // such plug-ins have no notifications
  }

  async review(log: FastifyBaseLogger): Promise<GuestLists> {
    return { tools: [await this.#review(log)], others: {} }
  }

  async #review(log: FastifyBaseLogger): Promise<Tool> {
    try {
      return this.#toolIn(await this.#route.ask(DESCRIBING_EXPORT, new Uint8Array(), log), log)
    } catch (thrown) {
      const error = knownError(thrown)
      if (error.statusCode !== 503) this.#warn(log, error.message) // a busy server says nothing about the plug-in
      return this.#plain
    }
  }

  async #describe({ caller }: Exchange): Promise<readonly Tool[]> {
    const { log } = caller.request
    try {
      const output = await this.#route.call(new Uint8Array(), lastingCaller(caller), DESCRIBING_EXPORT)
      return [this.#toolIn(output, log)]
    } catch (thrown) {
      const error = knownError(thrown)
      if (error.statusCode === 503) this.#tools = undefined // the server is busy: the next client asks again
      logFailure(error, caller.request, this.#route.served)
      return [this.#plain]
    }
  }

  /** @throws {@link ToolResultInvalidError} if the output describes no such function. */
  #toolIn(output: Uint8Array, log: FastifyBaseLogger): Tool {
    const { entry, leftOut } = entryOf(output, this.#route.served.function)
    if (leftOut.length > 0) this.#warn(log, `its ${leftOut.join(', ')} cannot be used`)
    return this.#usableToolOf(entry, log)
  }

  #warn(log: FastifyBaseLogger, problem: string): void {
    const { plugin, served } = this.#route
    const fields = { plugin: plugin.name, function: served.function }
    this.#notes.warn(
      log,
      fields,
      `The description of the tool ${served.function} by the plug-in ${plugin.name}: ${problem}`,
    )
  }

  /** A schema that cannot be used takes the texts of the tool not with it. */
  #usableToolOf(entry: Entry, log: FastifyBaseLogger): Tool {
    try {
      return this.#toolOf(entry)
    } catch (thrown) {
      this.#warn(log, knownError(thrown).message)
      const { inputSchema: _input, outputSchema: _output, ...texts } = entry
      return this.#toolOf(texts)
    }
  }

  /** @throws {@link ToolSchemaInvalidError} if a schema of the entry is invalid. */
  #toolOf(entry: Entry): Tool {
    const { options, served, plugin } = this.#route
    const { description = options.description ?? entry.description, ...own } = options.tool ?? {}
    const tool = { ...entry, ...own, ...(description !== undefined && { description }) }
    const described = { ...options, tool }
    return openTool(
      this.#route,
      describeTool({ options: described, functionName: served.function, pluginName: plugin.name }, undefined),
    )
  }
}

/** @throws {@link ToolResultInvalidError} if the output describes no such function. */
function entryOf(output: Uint8Array, name: string): { entry: Entry; leftOut: readonly string[] } {
  const refuse = (problem: string) => new ToolResultInvalidError(DESCRIBING_EXPORT, problem)
  let value: unknown
  try {
    value = parseJson(output).value
  } catch {
    throw refuse('it is not JSON')
  }
  const tools: readonly unknown[] = isObject(value) && Array.isArray(value.tools) ? value.tools : [value]
  const entries = tools.filter(isObject)
  const given = entries.find((each) => each.name === name) ?? (entries.length === 1 ? entries[0] : undefined)
  if (!given) throw refuse(`it does not describe ${name}`)
  const { title, description, inputSchema, outputSchema, annotations } = given
  const hints = read(annotations, SHAPES.toolAnnotations)
  const ownName = typeof given.name === 'string' && /^[A-Za-z0-9_.-]{1,128}$/.test(given.name)
  const entry = {
    ...(ownName && { name: String(given.name) }),
    ...(typeof title === 'string' && { title }),
    ...(typeof description === 'string' && { description }),
    ...(isObject(inputSchema) && { inputSchema }),
    ...(isObject(outputSchema) && { outputSchema }),
    ...(hints && { annotations: hints }),
  }
  const isGiven = (member: string) => given[member] !== undefined && given[member] !== null
  return { entry, leftOut: MEMBERS.filter((member) => isGiven(member) && !(member in entry)) }
}

/** Members of an entry that count. */
const MEMBERS = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations'] as const
