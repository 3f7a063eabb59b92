import { STATUS_CODES } from 'node:http'
import type { ServedRoute } from '../../options/served-route.ts'
import type { JsonSchema, XtpSchema, XtpValue } from './xtp-schema.ts'

/** Methods that OpenAPI supports. */
const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']

/** Methods whose requests have a meaningful body. (RFC 9110) */
const WITH_BODY = ['put', 'post', 'patch']

const PROBLEM = 'application/problem+json'

/**
 * Describes the routes of a server for its clients. (OpenAPI 3.1)
 *
 * @param schemas - The schema of each route's plug-in, if it has one.
 * @param url - The server's URL. undefined or a Unix socket: omitted from the document.
 */
export function routesDocument(
  routes: readonly ServedRoute[],
  schemas: readonly (XtpSchema | undefined)[],
  url?: string,
): object {
  const paths: Record<string, Record<string, object>> = {}
  const components: Record<string, JsonSchema> = { Problem: PROBLEM_SCHEMA }
  for (const [index, route] of routes.entries()) {
    if (route.tool?.isOnly) continue // it has no URL
    const schema = schemas[index]
    const prefix = namePart(route.plugin)
    for (const [name, one] of schema?.schemas ?? []) {
      components[`${prefix}.${namePart(name)}`] = pointTo(one, prefix)
    }
    for (const path of documentPaths(route.url)) {
      const own = paths[path] ?? {}
      paths[path] = own
      const methods = route.methods.includes('*') ? METHODS : route.methods.map((name) => name.toLowerCase())
      for (const method of methods) {
        // Where several hosts have a route, the first one is described.
        if (METHODS.includes(method) && !own[method])
          own[method] = routeOperation(route, path, method, schema, prefix)
      }
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Routes of wasm-serve', version: '1' },
    ...(url?.startsWith('http') && { servers: [{ url }] }),
    paths,
    components: { schemas: components },
  }
}

function routeOperation(
  route: ServedRoute,
  path: string,
  method: string,
  schema: XtpSchema | undefined,
  prefix: string,
): object {
  const point = (value: JsonSchema) => pointTo(value, prefix)
  const problem = { $ref: '#/components/schemas/Problem' }
  const { summary, description, body, responses } = describeRoute(route, schema, point, problem)
  const { host } = route
  return {
    operationId: operationId(route, method, path),
    summary,
    ...(description !== undefined && { description }),
    ...(host !== undefined && { servers: [{ url: `//${host}` }] }),
    parameters: [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...(hasBody(method) && { requestBody: { content: body } }),
    responses,
  }
}

export function isOpenApiMethod(method: string): boolean {
  return METHODS.includes(method)
}

export function hasBody(method: string): boolean {
  return WITH_BODY.includes(method)
}

export function operationId({ host }: ServedRoute, method: string, path: string): string {
  return `${method} ${host ?? ''}${path}`.replaceAll(/[^\w.-]+/g, '_')
}

/** Schemas by media type. */
export type Content = Readonly<Record<string, { readonly schema?: JsonSchema }>>

/** What clients should know of a route. */
interface RouteDescription {
  readonly summary: string
  readonly description: string | undefined
  readonly body: Content
  /** Responses by status. */
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>
}

/**
 * Describes a route.
 *
 * @param schema - The schema of its plug-in, if it has one.
 * @param point - Makes the references of a schema lead to the other schemas of the plug-in.
 * @param problem - The schema of a failure.
 */
export function describeRoute(
  { description, plugin, function: exported, errorStatus, contract, streams }: ServedRoute,
  schema: XtpSchema | undefined,
  point: (schema: JsonSchema) => JsonSchema,
  problem: JsonSchema,
): RouteDescription {
  // Contracts other than raw define input and output, which differ from the bodies.
  const called = contract === 'raw' ? schema?.exports.get(exported) : undefined
  const contentOf = (value: XtpValue | undefined): Content =>
    value ? { [value.contentType]: { schema: point(value.schema) } } : { '*/*': {} }
  return {
    summary: `${exported} of ${plugin}`,
    description: description ?? called?.description,
    body: contentOf(called?.input),
    responses: {
      ...(contract === 'websocket'
        ? { 101: { description: 'The connection is a WebSocket from here on.' } }
        : {
            200: {
              description: 'The output of the function.',
              content: { ...contentOf(called?.output), ...(streams && { 'text/event-stream': {} }) },
            },
            [errorStatus]: {
              description: 'The function returned an error.',
              content: { 'text/plain': {} },
            },
          }),
      default: { description: 'The call failed.', content: { [PROBLEM]: { schema: problem } } },
    },
  }
}

/** The schema of problem details. */
export const PROBLEM_SCHEMA: JsonSchema = {
  type: 'object',
  description: 'Problem details (RFC 9457).',
  properties: {
    type: { type: 'string' },
    title: { type: 'string', description: `The reason phrase of the status, such as ${STATUS_CODES[503]}.` },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string', description: 'A stable error code for programs.' },
    requestId: { type: 'string' },
  },
  required: ['type', 'title', 'status', 'detail', 'code', 'requestId'],
}

/** Converts Fastify's route syntax to OpenAPI's. An optional last parameter makes two paths of one. */
function documentPaths(url: string): string[] {
  const optional = /^(.*)\/:[^/]*\?\/?$/.exec(url)
  const whole = url
    .replaceAll('::', '\0')
    .replaceAll(/:(\w+)(?:\([^)]*\))*\??/g, '{$1}')
    .replaceAll('*', '{wildcard}')
    .replaceAll('\0', ':')
  return optional ? [whole, ...documentPaths(optional[1] || '/')] : [whole]
}

function pointTo(schema: JsonSchema, prefix: string): JsonSchema {
  return mapReferences(schema, (name) => `#/components/schemas/${prefix}.${namePart(name)}`)
}

/** @param point - The new reference to a schema of the plug-in with this name. */
export function mapReferences(schema: JsonSchema, point: (name: string) => string): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === '$ref' && typeof value === 'string' ? point(value.slice(value.lastIndexOf('/') + 1)) : value,
  )
}

/** A part of a component's name, which may have no other characters. Different names have different parts. */
export function namePart(name: string): string {
  return name.replaceAll(/[^\w-]|_(?=[\da-f]+_)/gu, (char) => `_${char.codePointAt(0)?.toString(16)}_`)
}
