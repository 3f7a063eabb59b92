import { isUtf8 } from 'node:buffer'
import type { JsonText } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'

/*
 * JSON-RPC 2.0 as MCP uses it: ids are strings or integers and never null, params are objects.
 *
 * @see https://www.jsonrpc.org/specification
 */

/** The id of a request. */
export type RequestId = string | number

/** The members of a request's `params` or of a result. */
export type Members = Readonly<Record<string, unknown>>

/** A message of a client. */
export type Message =
  | {
      readonly kind: 'request'
      readonly id: RequestId
      readonly method: string
      readonly params: Members
      /** The message. */
      readonly text: string
    }
  | { readonly kind: 'notification'; readonly method: string; readonly params: Members }
  | { readonly kind: 'response' }

export type Request = Extract<Message, { kind: 'request' }>

export type Notification = Extract<Message, { kind: 'notification' }>

/** Codes of JSON-RPC, and those that MCP reserves from revision 2026-07-28. */
export const RPC_CODES = {
  parseError: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internalError: -32_603,
  headerMismatch: -32_020,
  missingCapability: -32_021,
  unsupportedVersion: -32_022,
} as const

/** Maximum characters of an id or of a method's name. */
const MAX_NAME = 256

/** Maximum nesting of a message. Code that reads or renders it is recursive. */
export const MAX_DEPTH = 64

/** An error answer of the protocol. */
export class RpcError extends Error {
  readonly code: number
  /** The HTTP status. Revisions with `initialize` answer 200 to any well-formed request. */
  readonly status: number
  readonly data: unknown
  /** The scope that the token of the client does not have. */
  readonly scope: string | undefined

  constructor(code: number, message: string, status = 400, data?: unknown, scope?: string) {
    super(message)
    this.code = code
    this.status = status
    this.data = data
    this.scope = scope
  }
}

/** @throws {@link RpcError} if it is not JSON, or too deep. */
export function parseJson(bytes: Uint8Array): JsonText {
  let value: unknown
  let text: string
  try {
    if (!isUtf8(bytes)) throw new TypeError('not UTF-8')
    text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
    value = JSON.parse(text)
  } catch {
    throw new RpcError(RPC_CODES.parseError, 'Parse error: the body is not JSON in UTF-8')
  }
  if (isTooDeep(value))
    throw new RpcError(RPC_CODES.invalidRequest, `Invalid request: nested deeper than ${MAX_DEPTH} levels`)
  return { value, text }
}

/** Whether a value is nested deeper than messages may be. */
export function isTooDeep(value: unknown): boolean {
  return isDeeper(value, MAX_DEPTH)
}

function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (depth === 0) return true
  const members = value as Members
  for (const key in members) if (isDeeper(members[key], depth - 1)) return true
  return false
}

/** @throws {@link RpcError} if it is no message of JSON-RPC. */
export function readMessage({ value, text }: JsonText): Message {
  if (!isObject(value) || value.jsonrpc !== '2.0') throw invalid('it is not a message of JSON-RPC 2.0')
  const { id, method, params: given } = value
  const params = given ?? {} // null: some clients write what they leave out
  if (method === undefined && ('result' in value || 'error' in value)) return { kind: 'response' }
  if (typeof method !== 'string' || method === '' || method.length > MAX_NAME)
    throw invalid('its method is not a name')
  if (!isObject(params)) throw invalid('its params are not an object')
  if (!('id' in value)) return { kind: 'notification', method, params }
  if (!isRequestId(id))
    throw invalid(`its id is neither a string of at most ${MAX_NAME} characters nor an integer`)
  return { kind: 'request', id, method, params, text }
}

function invalid(reason: string): RpcError {
  return new RpcError(RPC_CODES.invalidRequest, `Invalid request: ${reason}`)
}

/** Whether the value can be repeated in an answer without loss. */
export function isRequestId(id: unknown): id is RequestId {
  return (typeof id === 'string' && id.length <= MAX_NAME) || Number.isSafeInteger(id)
}

/** The id of a message that may be malformed; undefined if it cannot be read. */
export function idOf(value: unknown): RequestId | undefined {
  return isObject(value) && typeof value.method === 'string' && isRequestId(value.id) ? value.id : undefined
}

/** A value of a message as an error names it. Not `String(value)`: an object may have a member `toString`. */
export function quoted(value: unknown, maxLength: number): string {
  const text = typeof value === 'string' ? value : String(JSON.stringify(value))
  return text.slice(0, maxLength)
}

/** The answer of a request that succeeded, as JSON. @param result - JSON. */
export function resultMessage(id: RequestId, result: string): string {
  return `{"jsonrpc":"2.0","id":${typeof id === 'number' ? id : JSON.stringify(id)},"result":${result}}`
}

/** The answer of a request that failed, as JSON. @param id - undefined if the id could not be read. */
export function errorMessage(id: RequestId | undefined, error: RpcError): string {
  return JSON.stringify({ jsonrpc: '2.0', id: id ?? null, error: errorMembers(error) })
}

/** What a client gets of an error. */
export function errorMembers({ code, message, data }: RpcError): Members {
  return { code, message, ...(data !== undefined && { data }) }
}
