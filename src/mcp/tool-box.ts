import { ScopeMissingError } from '../errors/errors.ts'
import { jsonAt, plainMember } from '../platform/json-parts.ts'
import { hasKeyTwice, isObject } from '../platform/json-text.ts'
import { claimsOf } from '../route/client.ts'
import type { Access } from './access.ts'
import type { Exchange } from './exchange.ts'
import type { GuestServer } from './guest-server.ts'
import { type Members, quoted, type Request, RPC_CODES, RpcError } from './json-rpc.ts'
import { checkParameterHeaders } from './parameter-headers.ts'
import { firstOfEachName } from './same-names.ts'
import type { Tasks } from './tasks.ts'
import type { Tool } from './tool.ts'
import type { ToolNotes } from './tool-notes.ts'
import type { ToolResult } from './tool-result.ts'

/** The owner of tools of routes. */
export const ROUTE = 'a route'

/** All tools, and which of them a client may use. */
export class ToolBox {
  /** Tools of routes. */
  readonly own: readonly Tool[]
  readonly #byName: ReadonlyMap<string, Tool>
  readonly #guests: readonly GuestServer[]
  readonly #notes: ToolNotes
  readonly #scopeFor: Access['scopeFor']
  readonly #tasks: Tasks

  /** @param guests - Plug-ins with tools of their own, which are listed after the others. */
  constructor(
    own: readonly Tool[],
    guests: readonly GuestServer[],
    { scopeFor }: Access,
    notes: ToolNotes,
    tasks: Tasks,
  ) {
    this.#tasks = tasks
    this.#notes = notes
    this.own = own
    this.#byName = new Map(own.map((tool) => [tool.name, tool]))
    this.#guests = guests
    this.#scopeFor = scopeFor
  }

  /** Whether all tools are those of routes. */
  get isFixed(): boolean {
    return this.#guests.length === 0
  }

  /** Whether calls of some tools may become tasks. */
  get mayHaveTasks(): boolean {
    return this.own.some(({ task }) => task) || this.#guests.some(({ mayHaveTasks }) => mayHaveTasks)
  }

  /** The tools that a client may use, in the order of lists. */
  async allowed(exchange: Exchange): Promise<readonly Tool[]> {
    return (await this.#all(exchange)).filter(({ name }) => exchange.grant.allows(name))
  }

  /**
   * Answers `tools/call`. Not an async function: the most frequent request is one with a tool of a route.
   *
   * @throws {@link RpcError} if there is no such tool for the client, or the arguments are no object.
   */
  call(message: Request, exchange: Exchange): Promise<Members | ToolResult> {
    const { name } = message.params
    const own = typeof name === 'string' ? this.#byName.get(name) : undefined
    if (own || this.isFixed) return this.#run(own, message, exchange)
    return this.#findGuestTool(name, exchange).then((tool) => this.#run(tool, message, exchange))
  }

  /** @throws {@link RpcError} if the client may not call it, or the arguments are no object. */
  #run(tool: Tool | undefined, message: Request, exchange: Exchange): Promise<Members | ToolResult> {
    const { name, arguments: given } = message.params
    const value = given ?? {}
    if (!tool || !exchange.grant.allows(tool.name)) {
      const unknown = invalidParams(`Unknown tool: ${quoted(name, 128)}`)
      if (!tool) throw unknown
      this.#refuse(tool.name, exchange)
      throw Object.assign(unknown, { cause: 'mcp.access does not grant the client this tool' })
    }
    if (!isObject(value)) throw invalidParams('the arguments must be an object')
    const { revision, headers, text } = exchange
    const args = { value, text: plainMember(text, 'arguments', value) ?? unambiguousArguments(text, value) }
    if (revision.isModern && headers) checkParameterHeaders(tool.headers, args, headers)
    if (!tool.task || exchange.isTask) return tool.call(args, exchange)
    return this.#tasks.call(tool.task, message, exchange, (own) => tool.call(args, own))
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
    return (await this.#all(exchange)).find((tool) => tool.name === name)
  }

  async #all(exchange: Exchange): Promise<readonly Tool[]> {
    const lists = await Promise.all(this.#guests.map((guest) => guest.tools(exchange)))
    const owned = [
      ...this.own.map((entry) => ({ owner: ROUTE, name: entry.name, entry })),
      ...this.#guests.flatMap(({ plugin: owner }, index) =>
        (lists[index] ?? []).map((entry) => ({ owner, name: entry.name, entry })),
      ),
    ]
    return firstOfEachName('tools', owned, this.#notes, exchange.caller.request.log)
  }
}

/** @throws {@link RpcError} if an object has a key twice. */
function unambiguousArguments(message: string, value: Members): string {
  const given = jsonAt(message, 'params', 'arguments')
  const text = given === undefined || given === 'null' ? '{}' : given
  if (hasKeyTwice(value, text)) throw invalidParams('an object of the arguments has a key twice')
  return text
}

function invalidParams(message: string): RpcError {
  return new RpcError(RPC_CODES.invalidParams, message, 200)
}
