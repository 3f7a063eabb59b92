import type { AgentChannel, AgentMessage } from '../guest/services/agent.ts'
import { jsonMembers, jsonOf, onOneLine } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import type { Exchange } from './exchange.ts'
import { isRequestId, type Members, parseJson } from './json-rpc.ts'
import type { ChangingList } from './list-changes.ts'
import type { Questions } from './questions.ts'

/** Messages of one call. Further ones are dropped. */
const MAX_MESSAGES = 1_000

/** Resources of which one call tells. */
const MAX_RESOURCES = 100

/** Characters of a URI. */
const MAX_URI = 4_096

const CHANGED: Readonly<Partial<Record<AgentMessage, ChangingList>>> = {
  notify_tool_list_changed: 'tools',
  notify_prompt_list_changed: 'prompts',
  notify_resource_list_changed: 'resources',
}

/** What a guest says that it has changed during a call. */
export interface GuestChanges {
  readonly lists: Set<ChangingList>
  /** URIs of resources. */
  readonly resources: Set<string>
}

/** @returns changes that a guest has not reported yet. */
export function noChanges(): GuestChanges {
  return { lists: new Set(), resources: new Set() }
}

/**
 * Sends the messages of a guest to its client, as far as the client has asked for them.
 *
 * @param questions - undefined: the guest gets no answers.
 * @param changes - Receives what the guest has changed.
 */
export function channelTo(
  client: Pick<Exchange, 'meta' | 'notify' | 'wantsLevel' | 'hasSession' | 'isTask'>,
  questions: Questions | undefined,
  changes: GuestChanges,
): AgentChannel {
  const { progressToken } = client.meta
  const hasToken = isRequestId(progressToken)
  let sent = 0
  let reached = Number.NEGATIVE_INFINITY
  return (name, text) => {
    const list = CHANGED[name]
    if (list) changes.lists.add(list)
    if (list || !name.startsWith('notify_')) return questions?.ask(name, text)
    const given = readMessage(text)
    if (!given || sent++ >= MAX_MESSAGES) return undefined
    if (name === 'notify_logging_message') {
      const { level, logger } = given
      if (client.wantsLevel?.(level))
        client.notify(
          'notifications/message',
          membersOf(text, ['level', ...(typeof logger === 'string' ? ['logger'] : []), 'data']),
        )
    } else if (name === 'notify_resource_updated') {
      const { uri } = given
      const isTold =
        typeof uri === 'string' && uri.length <= MAX_URI && changes.resources.size < MAX_RESOURCES
      if (isTold) changes.resources.add(uri)
    } else if (name === 'notify_url_elicitation_completed') {
      const { elicitationId } = given // later revisions have no such notification
      if (client.hasSession && typeof elicitationId === 'string')
        client.notify('notifications/elicitation/complete', JSON.stringify({ elicitationId }))
    } else if ((hasToken || client.isTask) && typeof given.progress === 'number') {
      const { progress, total, message } = given
      if (progress <= reached) return undefined // it must grow, and strict clients end the connection
      reached = progress
      const members = [
        ...['progress', ...(typeof total === 'number' ? ['total'] : [])],
        ...(typeof message === 'string' ? ['message'] : []),
      ]
      const more = hasToken ? { progressToken } : {}
      client.notify('notifications/progress', membersOf(text, members, more))
    }
    return undefined
  }
}

/** Some members of a guest's message in its own text, in which numbers have all their digits. Those that are missing are null. */
function membersOf(text: string, names: readonly string[], more: Members = {}): string {
  const given = jsonMembers(text)
  const own = names.map((name): [string, string] => [name, onOneLine(given.get(name) ?? 'null')])
  return jsonOf([
    ...Object.entries(more).map(([name, value]) => [name, JSON.stringify(value)] as const),
    ...own,
  ])
}

/** undefined: the guest has written something else. */
function readMessage(text: string): Members | undefined {
  try {
    const { value } = parseJson(Buffer.from(text))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
