import { isObject } from '../platform/json-text.ts'
import { fitsParts } from '../platform/text.ts'
import type { RouteCaller } from '../route/callable-route.ts'
import type { Exchange } from './exchange.ts'
import { type GuestListKind, type GuestServer, NAMED_BY, nameIn } from './guest-server.ts'
import { type Members, quoted, RPC_CODES, RpcError } from './json-rpc.ts'
import { firstOfEachName } from './same-names.ts'
import { metaOf, readAll, SHAPES } from './shapes.ts'
import type { ToolNotes } from './tool-notes.ts'

/** Values of a completion. (MCP) */
const MAX_VALUES = 100

/** The code with which revisions with `initialize` answer an unknown resource. */
const RESOURCE_NOT_FOUND = -32_002

/** Resources, prompts and completion: requests that plug-ins answer themselves. */
export class GuestMethods {
  readonly #guests: readonly GuestServer[]
  readonly #notes: ToolNotes

  /** @param notes - Receive warnings about names that are equal. */
  constructor(guests: readonly GuestServer[], notes: ToolNotes) {
    this.#guests = guests
    this.#notes = notes
  }

  /** What the server has besides tools. */
  get features(): readonly ('resources' | 'prompts' | 'completions')[] {
    return FEATURES.filter((name) => this.#has(name))
  }

  #has(feature: (typeof FEATURES)[number]): boolean {
    return this.#guests.some((guest) => guest.has(feature))
  }

  /** Tells all plug-ins that the roots of a client have changed. */
  async rootsChanged(meta: Members, caller: RouteCaller): Promise<void> {
    await Promise.all(this.#guests.map((guest) => guest.rootsChanged(meta, caller)))
  }

  /** All entries of a list, of all plug-ins. undefined: no plug-in has such a list. */
  async list(kind: GuestListKind, exchange: Exchange): Promise<readonly Members[] | undefined> {
    if (!this.#has(kind === 'prompts' ? 'prompts' : 'resources')) return undefined
    const lists = await Promise.all(this.#guests.map((guest) => guest.list(kind, exchange)))
    const owned = this.#guests.flatMap(({ plugin: owner }, index) =>
      (lists[index] ?? []).map((entry) => ({ owner, name: nameIn(entry, kind), entry })),
    )
    return firstOfEachName(kind, owned, this.#notes, exchange.caller.request.log)
  }

  /** undefined: no plug-in answers this method. */
  async answer(method: string, params: Members, exchange: Exchange): Promise<Members | undefined> {
    switch (method) {
      case 'resources/read':
        return this.#has('resources') ? this.#read(params, exchange) : undefined
      case 'prompts/get':
        return this.#has('prompts') ? this.#prompt(params, exchange) : undefined
      case 'completion/complete':
        return this.#has('completions') ? this.#complete(params, exchange) : undefined
      default:
        return undefined
    }
  }

  async #read(params: Members, exchange: Exchange): Promise<Members> {
    const { uri } = params
    const guest = (await this.#find('resources', uri, exchange)) ?? (await this.#withTemplate(uri, exchange))
    if (!guest || typeof uri !== 'string') {
      const code = exchange.revision.isModern ? RPC_CODES.invalidParams : RESOURCE_NOT_FOUND
      throw new RpcError(code, 'Resource not found', 200, { uri: quoted(uri, 1_000) })
    }
    const answer = await guest.answer('resources/read', params, exchange)
    const contents = readAll(answer.contents, SHAPES.resourceContents)
    if (!contents) throw broken('resources/read')
    // A guest reads again what may have changed.
    return {
      contents,
      ...metaOf(answer),
      ...(exchange.revision.isModern && { ttlMs: 0, cacheScope: 'private' }),
    }
  }

  async #prompt(params: Members, exchange: Exchange): Promise<Members> {
    const guest = await this.#find('prompts', params.name, exchange)
    if (!guest) throw invalid(`Unknown prompt: ${quoted(params.name, 128)}`)
    const answer = await guest.answer('prompts/get', params, exchange)
    const { description } = answer
    const messages = readAll(answer.messages, SHAPES.promptMessage)
    if (!messages) throw broken('prompts/get')
    return { ...(isText(description) && { description }), messages, ...metaOf(answer) }
  }

  async #complete(params: Members, exchange: Exchange): Promise<Members> {
    const { ref, argument } = params
    if (!isObject(ref) || !isObject(argument)) throw invalid('ref and argument must be objects')
    const guest =
      ref.type === 'ref/prompt'
        ? await this.#find('prompts', ref.name, exchange)
        : await this.#find('resourceTemplates', ref.uri, exchange)
    if (!guest) throw invalid('Unknown ref')
    const { completion } = await guest.answer('completion/complete', params, exchange)
    if (!isObject(completion) || !Array.isArray(completion.values)) throw broken('completion/complete')
    const { values, total, hasMore } = completion
    return {
      completion: {
        values: values.filter(isText).slice(0, MAX_VALUES),
        ...(typeof total === 'number' && { total }),
        ...(typeof hasMore === 'boolean' && { hasMore }),
      },
    }
  }

  /** The first plug-in with this entry in its list. */
  async #find(kind: GuestListKind, name: unknown, exchange: Exchange): Promise<GuestServer | undefined> {
    for (const guest of this.#guests) {
      const entries = await guest.list(kind, exchange)
      if (entries.some((entry) => entry[NAMED_BY[kind]] === name)) return guest
    }
    return undefined
  }

  /** A URI that no list has may be one of a template. */
  async #withTemplate(uri: unknown, exchange: Exchange): Promise<GuestServer | undefined> {
    for (const guest of this.#guests) {
      const templates = await guest.list('resourceTemplates', exchange)
      if (templates.some(({ uriTemplate }) => fitsTemplate(uri, uriTemplate))) return guest
    }
    return undefined
  }
}

/** Whether a URI has the literal parts of a template. */
function fitsTemplate(uri: unknown, template: unknown): boolean {
  return isText(uri) && isText(template) && fitsParts(uri, template.split(/\{[^{}]*\}/))
}

const FEATURES = ['resources', 'prompts', 'completions'] as const

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function invalid(message: string): RpcError {
  return new RpcError(RPC_CODES.invalidParams, message, 200)
}

function broken(method: string): RpcError {
  return new RpcError(RPC_CODES.internalError, `The plug-in gave no valid output for ${method}`, 200)
}
