import type { FastifyRequest } from 'fastify'
import { isObject } from '../platform/json-text.ts'
import { printable } from '../platform/text.ts'
import type { Client } from '../route/client.ts'
import { type Members, quoted, type Request, RPC_CODES, type RpcError } from './json-rpc.ts'
import { META } from './revisions.ts'

/** What the lines of calls have. */
interface AuditOptions {
  readonly level: 'off' | 'calls' | 'arguments'
  /** Arguments whose values are not logged. */
  readonly redact: readonly string[]
}

/** A message, and who has sent it. */
interface AuditedMessage {
  readonly message: Request
  readonly client: Client
  readonly request: FastifyRequest
}

/** Writes a line for each message that calls a guest, or would have. */
export interface Audit {
  /** @param result - May be one of a failed call. */
  answered(message: AuditedMessage, result: Members, ms: number): void
  refused(message: AuditedMessage, error: RpcError): void
  /** The rate of a client is beyond its limit: all further messages of the window are refused without a line. */
  limited(client: Client, request: FastifyRequest, code: string): void
}

/** Messages that call guests: the line, and which member of the params names what. */
const LINES: Readonly<Record<string, readonly [line: string, field: string, member: string]>> = {
  'tools/call': ['tool called', 'tool', 'name'],
  'resources/read': ['resource read', 'resource', 'uri'],
  'prompts/get': ['prompt read', 'prompt', 'name'],
  'completion/complete': ['text completed', 'ref', 'ref'],
}

/** Outcomes of requests that have no result yet, by the type of their answer. */
const OUTCOMES: Readonly<Record<string, string>> = { input_required: 'asked', task: 'task' }

/** Maximum characters of the arguments in a line. */
const MAX_ARGUMENTS = 4_096

/** Maximum characters of a name in a line. */
const MAX_NAME = 128

/** undefined: no lines. */
export function openAudit({ level, redact }: AuditOptions): Audit | undefined {
  if (level === 'off') return undefined
  const hidden = new Set(redact.map((name) => name.toLowerCase()))
  const write = ({ message, client, request }: AuditedMessage, more: object) => {
    const { method, params } = message
    const [line, field, member] = (Object.hasOwn(LINES, method) && LINES[method]) || []
    if (line === undefined || field === undefined || member === undefined) return
    const { arguments: args } = params
    const fields = {
      [field]: shown(params[member]),
      ...fieldsOf(client),
      agent: agentOf(message, request),
      ...more,
      ...(level === 'arguments' && args !== undefined && { arguments: renderArguments(args, hidden) }),
    }
    request.log.info(fields, line)
  }
  return {
    answered(message, { isError, _meta, resultType }, ms) {
      const code = isObject(_meta) ? _meta['wasm-serve/code'] : undefined
      const outcome = OUTCOMES[String(resultType)] ?? (isError ? 'error' : 'ok')
      write(message, { ms: Math.round(ms * 1_000) / 1_000, outcome, code })
    },
    refused(message, { code, data, message: text, cause }) {
      const outcome = code === RPC_CODES.internalError ? 'error' : 'refused'
      const own = isObject(data) ? data.code : undefined
      const reason = typeof cause === 'string' ? cause : printable(text)
      write(message, { outcome, code: typeof own === 'string' ? own : String(code), reason })
    },
    limited(client, request, code) {
      request.log.info({ ...fieldsOf(client), outcome: 'refused', code }, 'messages refused')
    },
  }
}

function fieldsOf({ name, issuer, address }: Client): object {
  return {
    client: name === undefined ? undefined : shown(name),
    issuer: issuer === undefined ? undefined : shown(issuer),
    address,
  }
}

/** What the client says about itself. Clients of revisions with `initialize` say it in a header, if at all. */
function agentOf({ params }: Request, { headers }: FastifyRequest): string | undefined {
  const info = isObject(params._meta) ? params._meta[META.clientInfo] : undefined
  const name = isObject(info) ? info.name : headers['user-agent']
  return typeof name === 'string' ? shown(name) : undefined
}

function shown(value: unknown): string {
  return printable(quoted(value, MAX_NAME))
}

function renderArguments(args: unknown, hidden: ReadonlySet<string>): string {
  const text = JSON.stringify(args, (key, value: unknown) =>
    hidden.has(key.toLowerCase()) ? '(redacted)' : value,
  )
  return printable(text.length > MAX_ARGUMENTS ? `${text.slice(0, MAX_ARGUMENTS)}...` : text)
}
