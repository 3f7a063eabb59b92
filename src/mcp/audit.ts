import type { FastifyRequest } from 'fastify'
import { printable } from '../platform/text.ts'
import { isObject, type Members } from './json-rpc.ts'
import type { ToolResult } from './tool-result.ts'

/** What a line for each call has. */
export interface AuditOptions {
  readonly level: 'off' | 'calls' | 'arguments'
  /** Arguments whose values are not logged. */
  readonly redact: readonly string[]
}

/** A call of a tool. */
export interface AuditedCall {
  readonly tool: string
  readonly args: Members
  readonly client: string | undefined
  readonly request: FastifyRequest
  /** `clientInfo` of the request: what the client says about itself. */
  readonly agent: unknown
  readonly ms: number
  readonly result: ToolResult
}

/** Maximum characters of the arguments in a line. */
const MAX_ARGUMENTS = 4_096

/** Maximum characters of a name in a line. */
const MAX_NAME = 128

/** Writes a line for each call: who called which tool, how long it took and how it ended. undefined: no lines. */
export function openAudit({ level, redact }: AuditOptions): ((call: AuditedCall) => void) | undefined {
  if (level === 'off') return undefined
  const hidden = new Set(redact.map((name) => name.toLowerCase()))
  return ({ tool, args, client, request, agent, ms, result }) => {
    const code = result._meta?.['wasm-serve/code']
    const fields = {
      tool,
      client: client === undefined ? undefined : safe(client),
      address: request.ip,
      agent: isObject(agent) && typeof agent.name === 'string' ? safe(agent.name) : undefined,
      ms: Math.round(ms * 1_000) / 1_000,
      outcome: result.isError ? 'error' : 'ok',
      code,
      ...(level === 'arguments' && { arguments: renderArguments(args, hidden) }),
    }
    request.log.info(fields, 'tool called')
  }
}

function safe(text: string): string {
  return printable(text.slice(0, MAX_NAME))
}

function renderArguments(args: Members, hidden: ReadonlySet<string>): string {
  const text = JSON.stringify(args, (key, value: unknown) =>
    hidden.has(key.toLowerCase()) ? '(redacted)' : value,
  )
  return printable(text.length > MAX_ARGUMENTS ? `${text.slice(0, MAX_ARGUMENTS)}...` : text)
}
