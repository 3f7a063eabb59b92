import { RegistryRefusedError } from '../../errors/errors.ts'
import { ChunkList } from '../../platform/chunks.ts'
import { isObject, type JsonObject, parseObject } from '../../platform/json-text.ts'
import { printable } from '../../platform/text.ts'
import type { Operation } from './operation.ts'
import type { HttpResponse } from './transport.ts'

/** The answer of a registry. */
export interface Answer extends HttpResponse {
  /** Which credentials were sent, or why none were, for messages. undefined if the registry did not ask for any. */
  readonly credentials: string | undefined
}

/** Limit of a body that only explains a failure, or has a token. */
const MAX_SMALL_BYTES = 65_536

const MAX_WORDS = 300

/** Refuses an answer whose status is not one of the expected. @throws {@link RegistryRefusedError} */
export async function expectStatus(
  { reference }: Operation,
  answer: Answer,
  ...expected: readonly number[]
): Promise<void> {
  if (expected.includes(answer.status)) return
  const { credentials, status } = answer
  const isDenied = status === 401 || status === 403 || status === 404
  const sent = credentials !== undefined && isDenied ? `; ${credentials}` : ''
  throw new RegistryRefusedError(reference, `${await problemWithAnswer(answer)}${sent}`)
}

/** The reason that a response is not the expected one: its status, and the words of the server. */
export async function problemWithAnswer(response: HttpResponse): Promise<string> {
  const answer = `(status ${response.status})${await wordsOf(response)}`
  switch (response.status) {
    case 401:
    case 403:
      return `access is denied ${answer}`
    case 404:
      return `it does not exist, or access is denied ${answer}`
    case 407:
      return `the proxy requires a user and a password, as in http://USER:PASSWORD@HOST ${answer}`
    default:
      return `the response is unexpected ${answer}`
  }
}

/** What a server says about a failure, after a colon: printable and short. Empty if it says nothing. */
export async function wordsOf(response: HttpResponse): Promise<string> {
  const bytes = await readAtMost(response, MAX_SMALL_BYTES)
  const body = parseObject(bytes)
  const isText = /^text\/plain\b/i.test(response.header('content-type') ?? '')
  const [line = ''] = isText
    ? Buffer.from(bytes ?? [])
        .toString()
        .trim()
        .split('\n', 1)
    : []
  const words = printable(body ? wordsIn(body) : line)
  if (words === '') return ''
  return `: ${words.length > MAX_WORDS ? `${words.slice(0, MAX_WORDS)}...` : words}`
}

/** The code and message of each error, as in the OCI distribution specification, or as in OAuth 2.0 and Docker Hub. */
function wordsIn(body: JsonObject): string {
  const errors: unknown[] = Array.isArray(body.errors) ? body.errors.slice(0, 3) : [body]
  const texts = errors.map((each) => {
    if (!isObject(each)) return ''
    const { code = each.error, message = each.error_description ?? each.details } = each
    return [code, message].filter((text) => typeof text === 'string' && text !== '').join(': ')
  })
  return texts.filter((text) => text !== '').join('; ')
}

/** A small JSON object, such as a token. @returns undefined if the body is something else. */
export async function readSmallObject(response: HttpResponse): Promise<JsonObject | undefined> {
  return parseObject(await readAtMost(response, MAX_SMALL_BYTES))
}

/** The body of a response. @returns undefined if it is longer than the limit; reading stops there. */
export async function readAtMost(response: HttpResponse, maxBytes: number): Promise<Uint8Array | undefined> {
  const chunks = new ChunkList()
  let length = 0
  for await (const chunk of response.body) {
    length += chunk.length
    if (length > maxBytes) return undefined // leaving the loop ends the body
    chunks.add(chunk)
  }
  return chunks.join()
}
