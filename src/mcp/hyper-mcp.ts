import type { FastifyBaseLogger } from 'fastify'
import { ToolExportMissingError, ToolResultInvalidError } from '../errors/errors.ts'
import { connectAgent } from '../guest/services/agent.ts'
import { type JsonText, jsonAt, jsonMembers, jsonOf } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import { printable } from '../platform/text.ts'
import type { CallableRoute, RouteCaller } from '../route/callable-route.ts'
import { knownError, logFailure } from '../route/error-response.ts'
import type { ToolArguments } from './description.ts'
import { inCurrentDialect, withoutNullKeywords } from './dialects.ts'
import type { Exchange } from './exchange.ts'
import { channelTo, type GuestChanges, noChanges } from './guest-messages.ts'
import { type GuestLists, type GuestServer, type ListKind, lastingCaller } from './guest-server.ts'
import { type Members, parseJson, quoted, RPC_CODES, RpcError } from './json-rpc.ts'
import type { GuestChange, ListChanges } from './list-changes.ts'
import { type ParameterHeader, parameterHeadersOf } from './parameter-headers.ts'
import { isQuestion, unlessAsked } from './questions.ts'
import { problemWithSchema } from './schema.ts'
import { metaOf, read, readFitting, SHAPES } from './shapes.ts'
import { type TaskRule, taskRule } from './tasks.ts'
import type { Tool } from './tool.ts'
import type { ToolNotes } from './tool-notes.ts'
import { failedResult, type GuestAnswer, guestResult } from './tool-result.ts'

/*
 * Plug-ins made for hyper-mcp, which describe and call their tools themselves. Version 2 of the interface has resources, prompts
 * and completion, too; version 1, of mcp.run, has `describe` and `call`.
 *
 * @see https://github.com/hyper-mcp-rs/hyper-mcp/blob/main/xtp-plugin-schema.json
 */

/** The export that makes a list. */
const LISTED_BY: Readonly<Record<ListKind, string>> = {
  tools: 'list_tools',
  resources: 'list_resources',
  resourceTemplates: 'list_resource_templates',
  prompts: 'list_prompts',
}

/** The export that answers a method. */
const ANSWERED_BY: Readonly<Record<string, string>> = {
  'resources/read': 'read_resource',
  'prompts/get': 'get_prompt',
  'completion/complete': 'complete',
}

/** The export that learns that the client's roots have changed. */
const ROOTS_CHANGED = 'on_roots_list_changed'

/** Entries of a list. Further ones are left out. */
const MAX_ENTRIES = 1_000

/**
 * Opens a plug-in made for hyper-mcp.
 *
 * @param ttlMs - Time after which its lists are read again, in ms, unless the plug-in says that they have changed.
 * @param changes - Clients that wait for changed lists.
 * @param notes - Receive warnings about entries that cannot be used.
 * @throws {@link ToolExportMissingError} if it has not the exports of one of the versions.
 */
export function openHyperMcp(
  route: CallableRoute,
  ttlMs: number,
  changes: ListChanges | undefined,
  notes: ToolNotes,
): GuestServer {
  const names = new Set(route.plugin.functions.map(({ name }) => name))
  if (names.has('list_tools') && names.has('call_tool'))
    return new HyperMcp(route, names, ttlMs, changes, notes)
  if (names.has('describe') && names.has('call'))
    return new HyperMcp(route, names, ttlMs, changes, notes, true)
  throw new ToolExportMissingError(route.plugin.name, 'list_tools and call_tool, or describe and call')
}

class HyperMcp implements GuestServer {
  readonly #route: CallableRoute
  readonly #exports: ReadonlySet<string>
  readonly #ttlMs: number
  readonly #isFirstVersion: boolean
  readonly #prefix: string
  readonly #changes: ListChanges | undefined
  readonly #notes: ToolNotes
  readonly #tools = new WeakMap<Members, Tool | undefined>()
  readonly #lists = new Map<
    ListKind,
    { readonly until: number; readonly entries: Promise<readonly Members[]> }
  >()

  constructor(
    route: CallableRoute,
    exports: ReadonlySet<string>,
    ttlMs: number,
    changes: ListChanges | undefined,
    notes: ToolNotes,
    isFirstVersion = false,
  ) {
    this.#notes = notes
    this.#route = route
    this.#prefix = route.options.tool?.prefix ?? ''
    this.#changes = changes
    this.#exports = exports
    this.#ttlMs = ttlMs
    this.#isFirstVersion = isFirstVersion
  }

  has(feature: 'resources' | 'prompts' | 'completions'): boolean {
    if (this.#isFirstVersion) return false
    const needed = { resources: 'read_resource', prompts: 'get_prompt', completions: 'complete' }
    return this.#exports.has(needed[feature])
  }

  get mayHaveTasks(): boolean {
    return taskRule(this.#route.options) !== undefined
  }

  get plugin(): string {
    return this.#route.plugin.name
  }

  async tools(exchange: Exchange): Promise<readonly Tool[]> {
    const entries = await this.list('tools', exchange)
    return entries.flatMap((entry) => this.#knownTool(entry, exchange.caller.request.log) ?? [])
  }

  /** Calls look for their tools, too: a schema is checked once. */
  #knownTool(entry: Members, log: FastifyBaseLogger): Tool | undefined {
    if (!this.#tools.has(entry)) this.#tools.set(entry, this.#toolOf(entry, log))
    return this.#tools.get(entry)
  }

  list(kind: ListKind, exchange: Exchange): Promise<readonly Members[]> {
    const known = this.#lists.get(kind)
    if (known && performance.now() < known.until) return known.entries
    const entries = this.#read(kind, exchange)
    this.#lists.set(kind, { until: performance.now() + this.#ttlMs, entries })
    return entries
  }

  async answer(method: string, params: Members, exchange: Exchange): Promise<Members> {
    const exported = Object.hasOwn(ANSWERED_BY, method) ? (ANSWERED_BY[method] ?? '') : ''
    const members = new Map(jsonMembers(jsonAt(exchange.text, 'params')))
    for (const key of ['_meta', 'inputResponses', 'requestState']) members.delete(key)
    for (const [key, text] of exchange.questions?.responses ?? []) members.set(key, text)
    if (method === 'prompts/get') members.set('name', JSON.stringify(this.#ownName(params.name)))
    if (method === 'completion/complete') members.set('ref', JSON.stringify(this.#ownRef(params.ref)))
    try {
      return (await this.#ask(exported, withContext(jsonOf(members), exchange), exchange)).value
    } catch (thrown) {
      if (isQuestion(thrown)) throw thrown
      const error = knownError(thrown)
      logFailure(error, exchange.caller.request, this.#route.served)
      throw new RpcError(RPC_CODES.internalError, error.message, 200, { code: error.code })
    }
  }

  /** The name of a prompt, as the plug-in knows it. */
  #ownName(name: unknown): unknown {
    return typeof name === 'string' && name.startsWith(this.#prefix) ? name.slice(this.#prefix.length) : name
  }

  /** For `ref/prompt`, the plug-in gets `prompt`. */
  #ownRef(ref: unknown): unknown {
    if (!isObject(ref) || typeof ref.type !== 'string') return ref
    const isPrompt = ref.type === 'ref/prompt'
    return {
      ...ref,
      type: ref.type.replace(/^ref\//, ''),
      ...(isPrompt && { name: this.#ownName(ref.name) }),
    }
  }

  async review(log: FastifyBaseLogger): Promise<GuestLists> {
    const kinds = Object.keys(LISTED_BY) as ListKind[]
    const lists = await Promise.all(kinds.map(async (kind) => [kind, await this.#reviewList(kind, log)]))
    const { tools, ...others }: Record<ListKind, readonly Members[]> = Object.fromEntries(lists)
    return { tools: tools.flatMap((entry) => this.#toolOf(entry, log) ?? []), others }
  }

  async #reviewList(kind: ListKind, log: FastifyBaseLogger): Promise<readonly Members[]> {
    const exported = this.#exportListing(kind)
    if (exported === undefined) return []
    try {
      const input = this.#listInput(NO_CLIENT)
      const read = readAnswer(await this.#route.ask(exported, Buffer.from(input), log), exported)
      return this.#entriesIn(read.value, kind, log)
    } catch (thrown) {
      const error = knownError(thrown)
      // A busy server says nothing about the plug-in.
      if (error.statusCode !== 503) this.#warn(log, `its list of ${kind} cannot be read: ${error.message}`)
      return []
    }
  }

  /** undefined: it has no such list. */
  #exportListing(kind: ListKind): string | undefined {
    const exported = this.#isFirstVersion ? 'describe' : LISTED_BY[kind]
    const isListed = this.#exports.has(exported) && (kind === 'tools' || !this.#isFirstVersion)
    return isListed ? exported : undefined
  }

  #listInput(exchange: Pick<Exchange, 'id' | 'text'>): string {
    return this.#isFirstVersion ? '' : jsonOf([['context', contextOf(exchange)]])
  }

  #entriesIn(answer: Members, kind: ListKind, log: FastifyBaseLogger): readonly Members[] {
    const entries = answer[kind]
    if (!Array.isArray(entries))
      throw new ToolResultInvalidError(LISTED_BY[kind], `it has no list of ${kind}`)
    const known = entries.filter(isObject).slice(0, MAX_ENTRIES)
    const fitting = kind === 'tools' ? known : readFitting(known, SHAPES[kind])
    const left = entries.length - fitting.length
    if (left > 0)
      this.#warn(
        log,
        `left out of its list of ${kind}, ${left} of ${entries.length}: too many, or not as MCP defines them`,
      )
    return kind === 'prompts'
      ? fitting.map((entry) => ({ ...entry, name: this.#prefixed(String(entry.name)) }))
      : fitting
  }

  /** The name of a tool or a prompt, as clients see it. */
  #prefixed(name: string): string {
    return `${this.#prefix}${name}`
  }

  #warn(log: FastifyBaseLogger, problem: string): void {
    this.#notes.warn(log, { plugin: this.plugin }, `The plug-in ${this.plugin}: ${problem}`)
  }

  async rootsChanged(meta: Members, caller: RouteCaller): Promise<void> {
    if (this.#isFirstVersion || !this.#exports.has(ROOTS_CHANGED)) return
    const input = JSON.stringify({ context: { _meta: meta } })
    const changed = noChanges()
    connectAgent(caller.request, channelTo(NO_LISTENER, undefined, changed))
    try {
      await this.#route.call(Buffer.from(input), lastingCaller(caller), ROOTS_CHANGED)
    } catch (error) {
      logFailure(knownError(error), caller.request, this.#route.served)
    } finally {
      this.#announce(changed)
    }
  }

  /** A plug-in whose list fails has none: the others are listed. */
  async #read(kind: ListKind, exchange: Exchange): Promise<readonly Members[]> {
    const exported = this.#exportListing(kind)
    if (exported === undefined) return []
    try {
      const input = this.#listInput(exchange)
      const answer = await this.#ask(exported, input, exchange, lastingCaller(exchange.caller))
      return this.#entriesIn(answer.value, kind, exchange.caller.request.log)
    } catch (error) {
      logFailure(knownError(error), exchange.caller.request, this.#route.served)
      this.#lists.delete(kind)
      return []
    }
  }

  /** Clients could not call a tool with an invalid name. */
  #toolOf(entry: Members, log: FastifyBaseLogger): Tool | undefined {
    const { name: ownName, title, description, annotations, icons } = entry
    const name = typeof ownName === 'string' ? this.#prefixed(ownName) : ''
    if (typeof ownName !== 'string' || !/^[A-Za-z0-9_.-]{1,128}$/.test(name)) {
      const shown = quoted(ownName, 128)
      this.#warn(log, `the tool ${shown} is left out: its name must be 1 to 128 letters, digits, _, - or .`)
      return undefined
    }
    const schemaIn = (member: 'inputSchema' | 'outputSchema') => this.#schemaIn(entry, member, name, log)
    const inputSchema = schemaIn('inputSchema')
    const outputSchema = schemaIn('outputSchema')
    const hints = read(annotations, SHAPES.toolAnnotations)
    return {
      name,
      isDescribed: typeof description === 'string' && description !== '',
      listed: {
        name,
        ...(typeof title === 'string' && { title }),
        ...(typeof description === 'string' && { description }),
        inputSchema: { ...inputSchema, type: 'object' },
        ...(outputSchema && { outputSchema }),
        ...(hints && { annotations: hints }),
        ...(SHAPES.icons(icons) && { icons }),
        ...metaOf(entry),
      },
      headers: inputSchema ? this.#headersOf(inputSchema, name, log) : [],
      task: this.#taskRuleOf(entry),
      call: async (args, exchange) => {
        try {
          return guestResult(await this.#callTool(ownName, args, exchange), name)
        } catch (thrown) {
          if (isQuestion(thrown)) throw thrown
          const error = knownError(thrown)
          logFailure(error, exchange.caller.request, this.#route.served)
          return failedResult(error)
        }
      },
    }
  }

  /** Official clients refuse a whole list, and with it the tools of other plug-ins, if they cannot compile a schema in it. */
  #schemaIn(
    entry: Members,
    member: 'inputSchema' | 'outputSchema',
    name: string,
    log: FastifyBaseLogger,
  ): Members | undefined {
    const given = entry[member]
    if (given === undefined || given === null) return undefined
    const schema = isObject(given) ? inCurrentDialect(withoutNullKeywords(given)) : undefined
    const problem =
      schema && SHAPES.schema(schema) ? problemWithSchema(schema) : 'it does not describe an object'
    if (problem === undefined) return schema
    this.#warn(log, `the ${member} of the tool ${name} is left out: ${problem}`)
    return undefined
  }

  /** A tool whose headers are wrong has none: clients refuse them, too. */
  #headersOf(inputSchema: Members, name: string, log: FastifyBaseLogger): readonly ParameterHeader[] {
    try {
      return parameterHeadersOf(inputSchema, name)
    } catch (error) {
      this.#warn(log, (error as Error).message)
      return []
    }
  }

  /** A tool may say, as in revision 2025-11-25, that it needs tasks, or that it has none. */
  #taskRuleOf({ execution }: Members): TaskRule | undefined {
    const rule = taskRule(this.#route.options)
    const support = isObject(execution) ? execution.taskSupport : undefined
    if (!rule || support === 'forbidden') return undefined
    return support === 'required' ? { ...rule, isRequired: true } : rule
  }

  #callTool(name: string, args: ToolArguments, exchange: Exchange): Promise<GuestAnswer> {
    const request = jsonOf([
      ['name', JSON.stringify(name)],
      ['arguments', args.text],
      ...(exchange.questions?.responses ?? []),
    ])
    return this.#isFirstVersion
      ? this.#ask('call', jsonOf([['params', request]]), exchange)
      : this.#ask('call_tool', withContext(request, exchange), exchange)
  }

  forget({ plugin, list }: GuestChange): void {
    if (list === undefined || plugin !== this.plugin) return
    this.#lists.delete(list)
    if (list === 'resources') this.#lists.delete('resourceTemplates')
  }

  /** The lists are read again, and clients that wait for a change do so. */
  #announce({ lists, resources }: GuestChanges): void {
    const { plugin } = this
    for (const list of lists) {
      this.forget({ plugin, list })
      this.#changes?.announce({ plugin, list })
    }
    for (const resource of resources) this.#changes?.announce({ plugin, resource })
  }

  /** @throws errors of the call; the question of the guest for the client; {@link ToolResultInvalidError} if the output is not an object of JSON. */
  async #ask(
    exported: string,
    input: string,
    exchange: Exchange,
    caller: RouteCaller = exchange.caller,
  ): Promise<GuestAnswer> {
    const questions = caller === exchange.caller ? exchange.questions : undefined // others wait for lists, too
    const changed = noChanges()
    connectAgent(caller.request, channelTo(exchange, questions, changed))
    const called = this.#route.call(Buffer.from(input), caller, exported)
    const output = await unlessAsked(called, questions).finally(() => this.#announce(changed))
    const { value, text } = readAnswer(output, exported)
    if (questions && value.resultType === 'input_required')
      throw questions.forward(value) ?? new ToolResultInvalidError(exported, 'its questions are not valid')
    return { value, text }
  }
}

/** @throws {@link ToolResultInvalidError} if it is not an object of JSON. */
function readAnswer(output: Uint8Array, exported: string): GuestAnswer {
  let read: JsonText
  try {
    read = parseJson(output)
  } catch (error) {
    throw new ToolResultInvalidError(exported, printable(String((error as Error).message)))
  }
  const { value, text } = read
  if (!isObject(value)) throw new ToolResultInvalidError(exported, 'it is not an object')
  return { value, text }
}

/** A client whose message has no answer. */
const NO_LISTENER = { meta: {}, notify: () => undefined, wantsLevel: undefined, hasSession: false } as const

/** The request of no client. */
const NO_CLIENT = { id: 'review', text: '{}' } as const

/** Numbers stay as the client wrote them: the request is passed on in its own text. */
function withContext(request: string, exchange: Exchange): string {
  return jsonOf([
    ['request', request],
    ['context', contextOf(exchange)],
  ])
}

function contextOf({ id, text }: Pick<Exchange, 'id' | 'text'>): string {
  const meta = jsonAt(text, 'params', '_meta')
  return jsonOf([
    ['id', JSON.stringify(id)],
    ['_meta', meta?.startsWith('{') ? meta : '{}'],
  ])
}
