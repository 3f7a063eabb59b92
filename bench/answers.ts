import { post } from './client.ts'
import { postHttp2 } from './load/http2.ts'
import { isRight, REQUEST_HEADERS, type Scenario } from './scenario.ts'

const REQUESTS = 200

/**
 * Sends overlapping requests each with its own body, because a load generator that sends equal bodies cannot see
 * an answer that went to the wrong request.
 *
 * @returns how many of the answers were not the right ones for their requests.
 * @throws when one was not, unless the scenario may fail.
 */
export async function checkAnswers(scenario: Scenario, url: string): Promise<number> {
  const bodies = Array.from({ length: REQUESTS }, (_, i) => `${scenario.body} ${i}`)
  const problems = await Promise.all(bodies.map((body) => problemOf(scenario, url, body)))
  const wrong = problems.filter((problem) => problem !== undefined)
  if (wrong.length === 0 || scenario.mayFail) return wrong.length
  throw new Error(
    `${scenario.name}: ${wrong.length} of ${REQUESTS} answers are wrong, such as ${wrong[0]?.slice(0, 500)}`,
  )
}

async function problemOf(scenario: Scenario, url: string, body: string): Promise<string | undefined> {
  const { headers = REQUEST_HEADERS } = scenario
  const sent = scenario.encode?.(body) ?? body
  const send = scenario.isHttp2 ? postHttp2 : post
  const { status, body: text } = await send(url, sent, { headers })
  if (status === 200 && isRight(scenario, body, text)) return undefined
  return `${status} ${text} instead of 200 ${scenario.answer(body)}`
}
