import { isUtf8 } from 'node:buffer'
import { parse, stringify } from 'node:querystring'
import { readEnvelope, renderBody, renderEnvelope } from '../contract/http.ts'
import { jsonElements, jsonMembers } from '../platform/json-parts.ts'
import type { CallableRoute, RouteCaller } from '../route/callable-route.ts'
import type { ToolArguments, ToolDescription, ToolInput } from './description.ts'
import type { Check } from './schema.ts'
import { resultOf, type ToolResult } from './tool-result.ts'

/*
 * Tools of routes with the contract `http`: the arguments become a request to the route, and its response the result. Headers of the
 * client are not passed on: its token is one for this server.
 */

/** The first status of failures. */
const FAILED = 400

/** Methods whose requests have no body: the arguments are in the query. */
const WITHOUT_BODY: readonly string[] = ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE']

/** The parameters of a URL: `:id`, with a pattern or `?` after it, and `*`. */
const PARAMETERS = /:(\w+)(?:\((?:[^()]|\([^()]*\))*\))?\??|\*/g

/** Makes the request of a call, as the guest gets it. @param body - The input of a guest with the contract `raw`. */
export type RenderCall = (args: ToolArguments, body: Uint8Array, caller: RouteCaller) => Uint8Array

/** @param input - What the body is made of. */
export function httpCallOf({ served }: CallableRoute, input: ToolInput): RenderCall {
  const [first = 'POST'] = served.methods
  const method = first === '*' ? 'POST' : first
  const names = [...served.url.matchAll(PARAMETERS)].map(([, name = '*']) => name)
  const hasBody = !WITHOUT_BODY.includes(method)
  const headers = hasBody && input.form !== 'none' ? { 'content-type': TYPES[typeOf(input)] } : {}
  return (args, body, { request }) => {
    const texts = textsOf(args)
    const params = Object.fromEntries(names.map((name) => [name, String(texts.get(name) ?? '')]))
    const path = served.url.replace(PARAMETERS, (_, name = '*') => encodeURIComponent(params[name] ?? ''))
    const others = [...texts].filter(([name]) => !names.includes(name))
    const query = hasBody ? '' : stringify(Object.fromEntries(others))
    return renderEnvelope({
      method,
      url: query === '' ? path : `${path}?${query}`,
      path,
      params,
      query: parse(query, '&', '=', { maxKeys: 0 }),
      headers,
      remoteAddress: request.ip ?? '',
      requestId: request.id,
      ...renderBody(hasBody ? body : undefined),
    })
  }
}

/** Content types of bodies. */
const TYPES = {
  json: 'application/json',
  text: 'text/plain; charset=utf-8',
  base64: 'application/octet-stream',
} as const

function typeOf(input: ToolInput): keyof typeof TYPES {
  return input.form === 'parameter' ? input.as : 'json'
}

/** The arguments as texts: strings as they are, lists as several, others as the client has written them. */
function textsOf({ value, text }: ToolArguments): Map<string, string | string[]> {
  const written = jsonMembers(text)
  return new Map(
    Object.entries(value).map(([name, argument]) => [
      name,
      Array.isArray(argument)
        ? jsonElements(written.get(name) ?? '[]').map((element, index) => plain(argument[index], element))
        : plain(argument, written.get(name) ?? 'null'),
    ]),
  )
}

function plain(value: unknown, text: string): string {
  return typeof value === 'string' ? value : text
}

/**
 * Converts the response of a guest to a result. The status of a failure is one for the model, too.
 *
 * @throws {@link ContractBrokenError}, {@link ToolResultInvalidError}.
 */
export function httpResult(
  output: Uint8Array,
  { name, contentType }: Pick<ToolDescription, 'name' | 'contentType'>,
  check: Check | undefined,
): ToolResult {
  const { status, headers, body } = readEnvelope(output)
  const bytes = body?.bytes ?? new Uint8Array()
  if (status >= FAILED) return failure(status, bytes)
  const [type = contentType] = headers.get('content-type') ?? []
  return resultOf(bytes, { name, contentType: type }, check)
}

function failure(status: number, body: Uint8Array): ToolResult {
  const reason = isUtf8(body) ? Buffer.from(body).toString() : ''
  const text = reason === '' ? `The status of the response is ${status}` : reason
  return { content: [{ type: 'text', text }], isError: true }
}
