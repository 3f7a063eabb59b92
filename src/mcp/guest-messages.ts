import type { AgentChannel } from '../guest/agent.ts'
import type { Exchange } from './exchange.ts'
import { isObject, isRequestId, type Members, parseJson } from './json-rpc.ts'
import { wantedLevels } from './log-notifications.ts'
import type { Questions } from './questions.ts'

/** Messages of one call. Further ones are dropped. */
const MAX_MESSAGES = 1_000

/**
 * Sends the messages of a guest to its client, as far as the client has asked for them.
 *
 * @param questions - undefined: the guest gets no answers.
 */
export function channelTo(
  client: Pick<Exchange, 'meta' | 'notify' | 'revision'>,
  questions: Questions | undefined,
): AgentChannel {
  const isWanted = client.revision.isModern ? wantedLevels(client.meta) : undefined
  const { progressToken } = client.meta
  let sent = 0
  return (name, text) => {
    if (name !== 'notify_logging_message' && name !== 'notify_progress') return questions?.ask(name, text)
    const given = readMessage(text)
    if (!given || sent++ >= MAX_MESSAGES) return undefined
    if (name === 'notify_logging_message') {
      const { level, logger, data = null } = given
      if (isWanted?.(level))
        client.notify('notifications/message', { level, ...(typeof logger === 'string' && { logger }), data })
    } else if (isRequestId(progressToken) && typeof given.progress === 'number') {
      const { progress, total, message } = given
      client.notify('notifications/progress', {
        ...{ progressToken, progress },
        ...(typeof total === 'number' && { total }),
        ...(typeof message === 'string' && { message }),
      })
    }
    return undefined
  }
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
