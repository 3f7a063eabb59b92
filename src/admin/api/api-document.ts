import { STATUS_CODES } from 'node:http'
import { packageVersion } from '../../platform/packages.ts'
import type { Endpoint } from './endpoint.ts'
import { ref, SCHEMAS } from './schemas.ts'

/** Failures that every endpoint may answer, and those of changes. */
const FAILURES = {
  all: [401, 403, 404, 503],
  changes: [400, 409, 412, 413, 422, 507],
} as const

/** Describes the admin API. (OpenAPI 3.1) */
export function apiDocument(endpoints: readonly Endpoint[]): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const endpoint of endpoints) {
    const { path, method } = endpoint
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation(endpoint) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Admin API of wasm-serve',
      version: packageVersion(),
      description: 'Shows and changes what a server serves, while it serves.',
    },
    servers: [{ url: '/' }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: SCHEMAS,
    },
  }
}

function operation({ id, summary, description, method, answers, ...endpoint }: Endpoint): object {
  const failures = [...FAILURES.all, ...(method === 'GET' ? [] : FAILURES.changes)]
  return {
    operationId: id,
    summary,
    ...(description !== undefined && { description }),
    parameters: [...pathParameters(endpoint.path), ...queryParameters(endpoint), ...ifMatch(method)],
    ...(endpoint.body && { requestBody: requestBody(endpoint) }),
    responses: Object.fromEntries([
      ...Object.entries(answers).map(([status, { description, schema }]) => [
        status,
        { description, headers: HEADERS, content: { 'application/json': { schema } } },
      ]),
      ...failures.map((status) => [
        status,
        {
          description: STATUS_CODES[status],
          content: { 'application/problem+json': { schema: ref('Problem') } },
        },
      ]),
    ]),
  }
}

const HEADERS = {
  etag: { description: 'The revision that is served, for `If-Match`.', schema: { type: 'string' } },
}

function pathParameters(path: string): object[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
}

function queryParameters({ query = {} }: Pick<Endpoint, 'query'>): object[] {
  return Object.entries(query).map(([name, schema]) => ({ name, in: 'query', schema }))
}

function ifMatch(method: Endpoint['method']): object[] {
  if (method === 'GET') return []
  const description = 'The `ETag` of an answer: the change is refused if something else was changed since.'
  return [{ name: 'If-Match', in: 'header', description, schema: { type: 'string' } }]
}

function requestBody({ body, takesBytes, path }: Pick<Endpoint, 'body' | 'takesBytes' | 'path'>): object {
  return {
    required: !path.endsWith('/rollback'),
    content: { 'application/json': { schema: body }, ...(takesBytes && { 'application/wasm': {} }) },
  }
}
