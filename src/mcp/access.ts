import type { FastifyRequest } from 'fastify'
import { fitsParts } from '../platform/text.ts'
import { type Client, claimsOf, clientOf, KnownKeys } from '../route/client.ts'

/** Tools that clients with a key or a scope may use. */
interface AccessRule {
  /** An API key. */
  readonly key?: string
  /** A scope of the token. With neither, the rule is for every client. */
  readonly scope?: string
  /** Names of tools. A `*` stands for any characters. */
  readonly tools: readonly string[]
}

/** Who sends a request, and what it may use. */
export interface Grant {
  readonly client: Client
  allows(tool: string): boolean
  /** Whether it may use everything: also resources and prompts, which have no rules. */
  readonly isWhole: boolean
}

/** Decides what the clients of an endpoint may use. */
export interface Access {
  /** Whether what a client sees depends on its credentials. */
  readonly isLimited: boolean
  grantOf(request: FastifyRequest): Grant
  /** The scope that would allow a tool to a client with a token; undefined if there is none. */
  scopeFor(tool: string): string | undefined
}

/**
 * @param rules - undefined: every client that reaches the endpoint may use everything.
 * @param apiKeys - Keys of the server that no rule need have.
 */
export function openAccess(
  rules: readonly AccessRule[] | undefined,
  apiKeys: readonly string[] = [],
): Access {
  const known = new KnownKeys([...apiKeys, ...(rules ?? []).flatMap(({ key }) => key ?? [])])
  const patterns = new Map((rules ?? []).map((rule) => [rule, rule.tools.map((name) => name.split('*'))]))
  const allows = (rule: AccessRule, tool: string) =>
    patterns.get(rule)?.some((parts) => fitsParts(tool, parts)) === true
  return {
    isLimited: rules !== undefined,
    grantOf(request) {
      const keys = known.in(request.headers)
      const client = clientOf(request, keys)
      if (!rules) return { client, allows: () => true, isWhole: true }
      const claims = claimsOf(request)
      const mine = rules.filter(({ key, scope }) => {
        if (key !== undefined) return keys.includes(key)
        return scope === undefined || claims?.scopes.includes(scope) === true
      })
      return {
        client,
        allows: (tool) => mine.some((rule) => allows(rule, tool)),
        isWhole: mine.some(({ tools }) => tools.includes('*')),
      }
    },
    scopeFor: (tool) => rules?.find((rule) => rule.scope !== undefined && allows(rule, tool))?.scope,
  }
}
