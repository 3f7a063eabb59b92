import type { FastifyInstance, FastifySchema } from 'fastify'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered without a token or a key. */
    isPublic?: true
    /** Parameters of the challenge of a 401 of this route. */
    challenge?: string
  }
}

/** How clients find the issuer of tokens for the endpoint. (RFC 9728) */
export interface ProtectedResource {
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
  app.route({
    method: 'GET',
    url: new URL(metadataUrl(resource)).pathname,
    config: { isPublic: true },
    schema: UNLISTED,
    handler: (_request, reply) => {
      reply.header('content-type', 'application/json').header('cache-control', 'max-age=300')
      return reply.send(JSON.stringify(metadata))
    },
  })
}

/** The URL of the metadata: the well-known path before the path of the endpoint. */
export function metadataUrl(resource: string): string {
  const { origin, pathname } = new URL(resource)
  return origin + WELL_KNOWN + (pathname === '/' ? '' : pathname)
}

/** The parameters of a challenge that leads to the metadata. */
export function challengeOf(resource: string): string {
  return `resource_metadata="${metadataUrl(resource)}"`
}
