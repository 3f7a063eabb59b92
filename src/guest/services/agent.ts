import { USER_NAMESPACE } from '../../module/names.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { CallContext } from '../call-context.ts'
import type { HostFunction } from '../host-functions.ts'
import { defineService, type OpenDefinition, type Operation } from './define-service.ts'
import { type GuestService, importsOf, providesImport } from './service.ts'

/*
 * The host functions of tools, which are those of plug-ins made for hyper-mcp (version 2 of its interface): messages to the client, an
 * agent, whose call the guest runs.
 *
 * @see https://github.com/hyper-mcp-rs/hyper-mcp/blob/main/xtp-plugin-schema.json
 */

/**
 * Receives the messages and questions of a guest.
 *
 * @param text - JSON, as the guest has written it.
 * @returns the answer to a question, JSON; undefined if there is none.
 */
export type AgentChannel = (name: AgentMessage, text: string) => string | undefined

/** The functions that a client can receive something of. */
export type AgentMessage = (typeof MESSAGES | typeof QUESTIONS)[number]

const MESSAGES = [
  'notify_logging_message',
  'notify_progress',
  'notify_prompt_list_changed',
  'notify_resource_list_changed',
  'notify_resource_updated',
  'notify_tool_list_changed',
  'notify_url_elicitation_completed',
] as const

/** Functions that return what the client answers. Without an answer the call ends. */
const QUESTIONS = ['create_elicitation', 'create_message', 'list_roots'] as const

/** Maximum characters of a message. */
const MAX_MESSAGE = 65_536

interface Operations {
  readonly send: Operation<[name: string, text: string], string | undefined>
}

/** @param host - The host of the caller, if it is known here. */
type SendToAgent = (name: AgentMessage, text: string, host: object | null) => string | undefined

/** Messages of a guest to the client of its call, and questions with their answers. */
export const agent: GuestService = defineService<Operations, SendToAgent>({
  name: 'agent',
  imports: { [USER_NAMESPACE]: [...MESSAGES, ...QUESTIONS] },
  operations: { send: ['text', 'text'] },
  isOffered: ({ contract }) => contract === 'hyper-mcp' || contract === 'raw' || contract === 'http',
  open: (use) => (importsOf(agent, use).length > 0 ? openAgent : undefined),
  clientOf:
    ({ ask }) =>
    (name, text) =>
      ask.send(undefined, name, text),
  serve: (send) => ({ functions: { [USER_NAMESPACE]: agentFunctions(send) } }),
})

/** Whether a guest may send messages to the client of its call, or ask it. */
export function mayUseAgent({ imports }: Pick<Plugin, 'imports'>): boolean {
  return imports.some(({ module, name }) => providesImport(agent, module, name))
}

const openAgent: OpenDefinition<Operations, SendToAgent> = {
  direct: sendToAgent,
  run: (_operation, [name, text], { caller }) => sendToAgent(name, text, caller?.host),
  forTrial: () => openAgent,
}

function agentFunctions(send: SendToAgent): Readonly<Record<string, HostFunction>> {
  const messages = MESSAGES.map((name): [string, HostFunction] => [
    name,
    (context: CallContext, at?: bigint) => {
      const text = textAt(context, at)
      if (text.length <= MAX_MESSAGE) send(name, text, context.hostContext<object>())
      return 0n
    },
  ])
  const questions = QUESTIONS.map((name): [string, HostFunction] => [
    name,
    (context: CallContext, at?: bigint) => {
      const text = textAt(context, at)
      const host = context.hostContext<object>()
      const answer = text.length > MAX_MESSAGE ? undefined : send(name, text, host)
      return answer === undefined ? refuse(name, context) : context.store(answer)
    },
  ])
  return Object.fromEntries([...messages, ...questions])
}

/** @param at - undefined for a function without input. */
function textAt(context: CallContext, at: bigint | undefined): string {
  return at === undefined ? '' : (context.read(at)?.text() ?? '')
}

function refuse(name: string, context: CallContext): never {
  const message = `${name} has no answer: questions are valid JSON of at most ${MAX_MESSAGE} characters, in calls of clients of revision 2026-07-28, or over standard input and output`
  context.setError(message)
  throw new Error(message)
}

/** The channels of running calls, by the host of their callers. */
const channels = new WeakMap<object, AgentChannel>()

/** Sets the channel of the calls of a host, which is the request that they answer. */
export function connectAgent(host: object, channel: AgentChannel): void {
  channels.set(host, channel)
}

/** Sends a message or question of a guest to the channel of its caller, if it has one. @returns the answer. */
function sendToAgent(name: unknown, text: unknown, host: unknown): string | undefined {
  const channel = typeof host === 'object' && host !== null ? channels.get(host) : undefined
  const known = [...MESSAGES, ...QUESTIONS].find((each) => each === name)
  const isSent = channel && known && typeof text === 'string' && text.length <= MAX_MESSAGE
  return isSent ? channel(known, text) : undefined
}
