import type { FastifyRequest } from 'fastify'
import { apiKeysIn, keyDigest, positionsOf } from '../platform/api-keys.ts'
import { claimsOf } from './token-claims.ts'

/** Tools that clients with a key or a scope may use. */
export interface AccessRule {
  /** An API key. */
  readonly key?: string
  /** A scope of the token. With neither, the rule is for every client. */
  readonly scope?: string
  /** Names of tools. A `*` stands for any characters. */
  readonly tools: readonly string[]
}

/** Who sends a request, and what it may use. */
export interface Grant {
  /** Identifies the client in the audit log and for the rate limit: a digest of its key, or the subject of its token. */
  readonly client: string | undefined
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

/** @param rules - undefined: every client that reaches the endpoint may use everything. */
export function openAccess(rules: readonly AccessRule[] | undefined): Access {
  const keyed = (rules ?? []).flatMap((rule) => (rule.key === undefined ? [] : [{ ...rule, key: rule.key }]))
  const digests = keyed.map(({ key }) => keyDigest(key))
  const patterns = new Map((rules ?? []).map((rule) => [rule, patternOf(rule.tools)]))
  return {
    isLimited: rules !== undefined,
    grantOf(request) {
      if (!rules) return new WholeGrant(request)
      const keys = apiKeysIn(request.headers)
      const claims = claimsOf(request)
      const byKey = keys.flatMap((key) => positionsOf(key, digests)).flatMap((index) => keyed[index] ?? [])
      const known = new Set<string | undefined>(byKey.map(({ key }) => key))
      const mine = rules.filter(({ key, scope }) => {
        if (key !== undefined) return known.has(key)
        return scope === undefined || claims?.scopes.includes(scope) === true
      })
      const allowed = mine.flatMap((rule) => patterns.get(rule) ?? [])
      return {
        client: clientOf(request),
        allows: (tool) => allowed.some((pattern) => pattern.test(tool)),
        isWhole: mine.some(({ tools }) => tools.includes('*')),
      }
    },
    scopeFor: (tool) =>
      (rules ?? []).find((rule) => rule.scope !== undefined && patterns.get(rule)?.test(tool))?.scope,
  }
}

/** The grant of a client where there are no rules. Who it is matters only for the audit log and the rate limit. */
class WholeGrant implements Grant {
  readonly isWhole = true
  readonly #request: FastifyRequest

  constructor(request: FastifyRequest) {
    this.#request = request
  }

  get client(): string | undefined {
    return clientOf(this.#request)
  }

  allows(): boolean {
    return true
  }
}

function clientOf(request: FastifyRequest): string | undefined {
  const [key] = apiKeysIn(request.headers)
  return claimsOf(request)?.subject ?? (key === undefined ? undefined : fingerprint(key))
}

/** Matches the names of a rule. */
function patternOf(tools: readonly string[]): RegExp {
  const parts = tools.map((name) => name.replaceAll(/[^\w*-]/g, '\\$&').replaceAll(/\*+/g, '.*'))
  return new RegExp(`^(?:${parts.join('|')})$`)
}

/** Tells clients apart in the log without showing their keys. */
function fingerprint(key: string): string {
  return `key:${keyDigest(key).toString('hex').slice(0, 12)}`
}
