import type { FastifyInstance, FastifySchema } from 'fastify'
import { allowRequest } from './cross-origin.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered without a token or a key. */
    isPublic?: true
    /** Parameters of the challenge of a 401 of this route. */
    challenge?: string
    /** The URL of the endpoint, whose metadata leads to the issuer of tokens. */
    resource?: string
    /** false: not by the option `cors` of the server. */
    cors?: false
  }
}

/** How clients find the issuer of tokens for the endpoint. (RFC 9728) */
interface ProtectedResource {
  /** The URL of the endpoint, as clients know it. */
  readonly resource: string
  /** Issuers of tokens. */
  readonly authorizationServers: readonly string[]
  readonly scopes: readonly string[]
}

/** Clients find the endpoint by its protocol: `@fastify/swagger` leaves its routes out of the document of an app. */
export const UNLISTED: FastifySchema & { readonly hide: true } = { hide: true }

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

/** Serves the metadata of the endpoint to everyone. @see https://www.rfc-editor.org/rfc/rfc9728 */
export function addMetadata(
  app: FastifyInstance,
  { resource, authorizationServers, scopes }: ProtectedResource,
): void {
  const metadata = {
    resource,
    authorization_servers: authorizationServers,
    bearer_methods_supported: ['header'],
    ...(scopes.length > 0 && { scopes_supported: scopes }),
  }
  const text = JSON.stringify(metadata)
  // Clients that do not find it by the challenge look below the path of the endpoint, and then at the root.
  for (const url of new Set([new URL(metadataUrl(resource)).pathname, WELL_KNOWN])) {
    app.route({
      method: 'GET',
      url,
      config: { isPublic: true, cors: false },
      schema: UNLISTED,
      handler: (_request, reply) => {
        reply.header('content-type', 'application/json').header('cache-control', 'max-age=300')
        return reply.header('access-control-allow-origin', '*').send(text)
      },
    })
    app.route({
      method: 'OPTIONS',
      url,
      config: { isPublic: true, cors: false },
      schema: UNLISTED,
      handler: (request, reply) => {
        reply.header('access-control-allow-origin', '*')
        allowRequest(request.headers, reply)
      },
    })
  }
}

/** The URL of the metadata: the well-known path before the path of the endpoint. */
export function metadataUrl(resource: string): string {
  const { origin, pathname } = new URL(resource)
  return origin + WELL_KNOWN + (pathname === '/' ? '' : pathname)
}

/** The parameters of a challenge that leads to the metadata. @param scopes - What a token should have. */
export function challengeOf(resource: string, scopes: readonly string[] = []): string {
  const found = `resource_metadata="${metadataUrl(resource)}"`
  return scopes.length === 0 ? found : `scope="${scopes.join(' ')}", ${found}`
}
