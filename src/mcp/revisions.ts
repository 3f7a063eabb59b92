import { isObject } from '../platform/json-text.ts'
import { trimEnds } from '../platform/text.ts'
import { type Members, type Request, RPC_CODES, RpcError } from './json-rpc.ts'
import { headersToMatch, type RequestHeaders } from './transport-headers.ts'

/*
 * The revisions of MCP. From 2026-07-28 on, each request is complete: `_meta` has the revision and the capabilities of the
 * client, and headers repeat what intermediaries need. Earlier revisions begin with `initialize`; they are served without
 * sessions, so each of their requests is complete, too.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
 */

/** Revisions with `initialize`, the newest first. */
export const LEGACY_REVISIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']

/** The only revision with batches of messages, and the one of clients that send no header with a revision. */
export const BATCH_REVISION = '2025-03-26'

/** Keys of `_meta`. */
export const META = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscriptionId: 'io.modelcontextprotocol/subscriptionId',
} as const

/** The revision in which a request is answered. */
export interface Revision {
  readonly name: string
  /** Whether the request is complete by itself. */
  readonly isModern: boolean
}

const MODERN_REVISION: Revision = { name: '2026-07-28', isModern: true }

/** Revisions whose requests are complete, the newest first. */
export const MODERN_REVISIONS: readonly string[] = [MODERN_REVISION.name]

/**
 * The revision of a request.
 *
 * @throws {@link RpcError} if the server does not support it, a member of `_meta` is missing, or a header does not match the
 * body.
 */
export function revisionOf(request: Request, headers: RequestHeaders): Revision {
  const meta = isObject(request.params._meta) ? request.params._meta : {}
  const named = headerOf(headers, 'mcp-protocol-version')
  if (request.method === 'initialize' && !(META.protocolVersion in meta)) return negotiatedRevision(named)
  const isModern = META.protocolVersion in meta || MODERN_REVISIONS.includes(named ?? '')
  return isModern ? modernRevision(request, meta, headersToMatch(headers), named) : legacyRevision(named)
}

function modernRevision(
  request: Request,
  meta: Members,
  headers: RequestHeaders,
  named: string | undefined,
): Revision {
  const version = meta[META.protocolVersion]
  if (typeof version !== 'string') throw incomplete(META.protocolVersion)
  if (!isObject(meta[META.clientCapabilities])) throw incomplete(META.clientCapabilities)
  if (headers) checkHeader('MCP-Protocol-Version', named, version)
  if (version !== MODERN_REVISION.name) throw unsupported(version, MODERN_REVISIONS)
  if (headers) checkMethodHeaders(request, headers)
  return MODERN_REVISION
}

function incomplete(key: string): RpcError {
  return new RpcError(RPC_CODES.invalidParams, `Invalid params: _meta has no valid ${key}`)
}

function unsupported(requested: string, supported: readonly string[]): RpcError {
  const data = { supported, requested }
  return new RpcError(RPC_CODES.unsupportedVersion, 'Unsupported protocol version', 400, data)
}

/** A client that does not know yet what the server supports may name the newest revision that it speaks. The answer names another one. */
function negotiatedRevision(named: string | undefined): Revision {
  const isKnown = named !== undefined && LEGACY_REVISIONS.includes(named)
  return { name: isKnown ? named : BATCH_REVISION, isModern: false }
}

/** Clients of the first revisions send no header. */
function legacyRevision(named = BATCH_REVISION): Revision {
  if (LEGACY_REVISIONS.includes(named)) return { name: named, isModern: false }
  throw unsupported(named, [...MODERN_REVISIONS, ...LEGACY_REVISIONS])
}

/** The member of `params` that the header `Mcp-Name` repeats, by method. */
const NAMED_BY: Readonly<Record<string, 'name' | 'uri' | 'taskId'>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
}

function checkMethodHeaders({ method, params }: Request, headers: RequestHeaders): void {
  checkHeader('Mcp-Method', headerOf(headers, 'mcp-method'), method)
  const member = Object.hasOwn(NAMED_BY, method) ? NAMED_BY[method] : undefined
  const name = member && params[member]
  const given = headerOf(headers, 'mcp-name')
  const mayBeMissing = member === 'taskId' && headers?.['mcp-name'] === undefined // as with FastMCP
  if (typeof name === 'string' && !mayBeMissing)
    checkHeader('Mcp-Name', decodeHeader('Mcp-Name', given), name)
}

/** Intermediaries decide by the header, the server by the body: they must not differ. */
export function checkHeader(header: string, given: string | undefined, expected: string): void {
  if (given === expected) return
  throw mismatch(
    given === undefined
      ? `the request has no header ${header}`
      : `the request has another value in the header ${header} than in its body`,
  )
}

function mismatch(problem: string): RpcError {
  return new RpcError(RPC_CODES.headerMismatch, `Header mismatch: ${problem}`)
}

/** A header of a request. A repeated one, which Node.js joins with a comma, is a value that does not match. */
export function headerOf(headers: RequestHeaders, name: string): string | undefined {
  const value = headers?.[name]
  return typeof value === 'string' ? trimEnds(value, ' \t') : undefined
}

/**
 * Decodes the value of a header that may be `=?base64?...?=`.
 *
 * @throws {@link RpcError} if the text in it is not base64 of UTF-8.
 */
export function decodeHeader(header: string, value: string | undefined): string | undefined {
  if (value?.startsWith('=?') !== true) return value
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(value) ?? []
  if (encoded === undefined) return value
  const bytes = Buffer.from(encoded, 'base64')
  if (bytes.toString('base64') !== encoded) throw mismatch(`the header ${header} is not valid base64`)
  try {
    return utf8.decode(bytes)
  } catch {
    throw mismatch(`the header ${header} is not UTF-8`)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
