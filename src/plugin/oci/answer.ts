import { RegistryRefusedError } from '../../errors/errors.ts'
import { ChunkList } from '../../platform/chunks.ts'
import { isObject, parseObject } from '../../platform/json-text.ts'
import { printable } from '../../platform/text.ts'
import type { Operation } from './operation.ts'
import type { HttpResponse } from './transport.ts'

/** Limit of a body that only explains a failure, or has a token. */
const MAX_SMALL_BYTES = 65_536

const MAX_REASON = 300

/** Refuses a response whose status is not one of the expected. @throws {@link RegistryRefusedError} */
export async function expectStatus(
  { reference }: Operation,
  response: HttpResponse,
  ...expected: readonly number[]
): Promise<void> {
  if (!expected.includes(response.status))
    throw new RegistryRefusedError(reference, await problemWithAnswer(response))
}

/** The reason that a response is not the expected one: its status, and the error that the registry sent. */
export async function problemWithAnswer(response: HttpResponse): Promise<string> {
  const details = await readErrors(response)
  const answer = `(status ${response.status})${details === '' ? '' : `: ${details}`}`
  switch (response.status) {
    case 401:
    case 403:
      return `access is denied ${answer}`
    case 404:
      return `it does not exist, or access is denied ${answer}`
    default:
      return `the answer is not expected ${answer}`
  }
}

/** The code and message of each error, as in the OCI distribution specification. The registry may send anything instead. */
async function readErrors(response: HttpResponse): Promise<string> {
  const body = parseObject(await readAtMost(response, MAX_SMALL_BYTES))
  const errors: unknown[] = Array.isArray(body?.errors) ? body.errors.slice(0, 3) : [body]
  const texts = errors.map((error) => {
    if (!isObject(error)) return ''
    const { code, message = error.details } = error
    return [code, message].filter((text) => typeof text === 'string' && text !== '').join(': ')
  })
  const text = printable(texts.filter((text) => text !== '').join('; '))
  return text.length > MAX_REASON ? `${text.slice(0, MAX_REASON)}...` : text
}

/** A small JSON object, such as a token. @returns undefined if the body is something else. */
export async function readSmallObject(
  response: HttpResponse,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  return parseObject(await readAtMost(response, MAX_SMALL_BYTES))
}

/** The body of a response. @returns undefined if it is longer than the limit; reading stops there. */
export async function readAtMost(response: HttpResponse, maxBytes: number): Promise<Uint8Array | undefined> {
  const chunks = new ChunkList()
  let length = 0
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxBytes) return undefined // leaving the loop ends the body
    chunks.add(chunk)
  }
  return chunks.join()
}
