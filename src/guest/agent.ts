import type { CallContext } from './call-context.ts'
import type { HostFunction, HostFunctions } from './host-functions.ts'

/*
 * The host functions of plug-ins made for hyper-mcp (version 2 of its interface): messages to the client, an agent, whose call
 * the guest runs.
 *
 * @see https://github.com/hyper-mcp-rs/hyper-mcp/blob/main/xtp-plugin-schema.json
 */

/** Receives the messages of a guest. @param text - JSON, as the guest has written it. */
export type AgentChannel = (name: AgentMessage, text: string) => void

/** The functions that a client can receive something of. */
export type AgentMessage = (typeof MESSAGES)[number]

const MESSAGES = ['notify_logging_message', 'notify_progress'] as const

/** Lists are read again when their time is over, so that these have no effect. */
const WITHOUT_EFFECT = [
  'notify_prompt_list_changed',
  'notify_resource_list_changed',
  'notify_resource_updated',
  'notify_tool_list_changed',
  'notify_url_elicitation_completed',
] as const

/** The server would have to ask the client during a call, and stateless requests have no way back. */
const UNSUPPORTED = ['create_elicitation', 'create_message', 'list_roots'] as const

/** Maximum characters of a message. */
const MAX_MESSAGE = 65_536

const NAMESPACE = 'extism:host/user'

/**
 * The host functions of the user with those of hyper-mcp. The user's take precedence.
 *
 * @param send - Called for each message, with the host of the caller if it is known.
 */
export function withAgent(
  users: HostFunctions | undefined,
  send: (name: AgentMessage, text: string, host: object | null) => void,
): HostFunctions {
  const messages = MESSAGES.map((name): [string, HostFunction] => [
    name,
    (context: CallContext, at: bigint) => {
      const text = context.read(at)?.text() ?? ''
      if (text.length <= MAX_MESSAGE) send(name, text, context.hostContext<object>())
      return 0n
    },
  ])
  const silent = WITHOUT_EFFECT.map((name): [string, HostFunction] => [name, () => 0n])
  const refused = UNSUPPORTED.map((name): [string, HostFunction] => [name, refuse(name)])
  const own = Object.fromEntries([...messages, ...silent, ...refused])
  return { ...users, [NAMESPACE]: { ...own, ...users?.[NAMESPACE] } }
}

function refuse(name: string): HostFunction {
  return (context) => {
    const message = `${name} is not possible: the server answers each request by itself, and cannot ask the client during a call`
    context.setError(message)
    throw new Error(message)
  }
}

/** The channels of running calls, by the host of their callers. */
const channels = new WeakMap<object, AgentChannel>()

/** Sets the channel of the calls of a host, which is the request that they answer. */
export function connectAgent(host: object, channel: AgentChannel): void {
  channels.set(host, channel)
}

/** Sends a message of a guest to the channel of its caller, if it has one. */
export function sendToAgent(name: unknown, text: unknown, host: unknown): void {
  const channel = typeof host === 'object' && host !== null ? channels.get(host) : undefined
  const known = MESSAGES.find((each) => each === name)
  if (channel && known && typeof text === 'string' && text.length <= MAX_MESSAGE) channel(known, text)
}
