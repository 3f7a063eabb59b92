import type { FastifyInstance } from 'fastify'
import type { ServedRoute } from '../../options/served-route.ts'
import { sha256 } from '../../plugin/source/digest.ts'
import {
  type Content,
  describeRoute,
  hasBody,
  isOpenApiMethod,
  mapReferences,
  namePart,
  operationId,
  PROBLEM_SCHEMA,
} from './routes-document.ts'
import { type JsonSchema, readXtpSchema, type XtpSchema } from './xtp-schema.ts'

/** The property of a route's `config` in which `@fastify/swagger` looks for its description. */
export interface SwaggerConfig {
  swaggerTransform(asked: Asked): { readonly schema: object; readonly url: string }
}

interface Asked {
  readonly url: string
  readonly route: { readonly method: string | readonly string[] }
  /** Present if the document is OpenAPI 3; otherwise it is Swagger 2. */
  readonly openapiObject?: object
}

/** The `$id` of the schema of failures. */
const PROBLEM_ID = 'wasm-serve.Problem'

/**
 * Describes a route for the document of an app with `@fastify/swagger`. Fastify does not see the schema: it neither checks
 * requests nor changes answers.
 *
 * @param app - The scope of the route. It gets the schemas of the plug-in, for references.
 * @param source - The path of the plug-in, if it has one: its XTP schema is beside it.
 */
export async function swaggerConfig(
  app: FastifyInstance,
  route: ServedRoute,
  source: string | undefined,
): Promise<SwaggerConfig> {
  const xtp = source === undefined ? undefined : await readXtpSchema(source)
  addSchemaOnce(app, PROBLEM_ID, PROBLEM_SCHEMA)
  const point = xtp ? addSchemas(app, route, xtp) : (schema: JsonSchema) => schema
  const problem = { $ref: `${PROBLEM_ID}#` }
  const { summary, description, body, responses } = describeRoute(route, xtp, point, problem)
  return {
    swaggerTransform({ url, route: { method }, openapiObject }) {
      const name = String(method).toLowerCase()
      const isKnown = isOpenApiMethod(name) && (openapiObject || name !== 'trace')
      if (!isKnown) return { url, schema: { hide: true } }
      const path = url.replace(/\?\/?$/, '') // that a parameter is optional cannot be said
      const kind = openapiObject ? openApi3(body, responses) : swagger2(body, responses)
      const { body: _, consumes: _types, ...withoutBody } = kind
      return {
        url: path,
        schema: {
          operationId: operationId(route, name, path),
          summary,
          ...(description !== undefined && { description }),
          ...(hasBody(name) ? kind : withoutBody),
        },
      }
    },
  }
}

type Responses = ReturnType<typeof describeRoute>['responses']

interface Bodies {
  readonly body: object
  readonly consumes?: readonly string[]
  readonly response: object
}

/** The package takes a media type without a schema for a property of one. */
function openApi3(body: Content, responses: Responses): Bodies {
  const withSchemas = (content: Content) =>
    Object.fromEntries(Object.entries(content).map(([type, { schema = {} }]) => [type, { schema }]))
  return {
    body: { content: withSchemas(body) },
    response: mapValues(responses, ({ description, content }) =>
      content ? { description, content: withSchemas(content) } : { description, type: 'null' },
    ),
  }
}

/** A body has one schema, whatever its media type. */
function swagger2(body: Content, responses: Responses): Bodies {
  const schemaIn = (content: Content | undefined) => Object.values(content ?? {})[0]?.schema
  return {
    body: schemaIn(body) ?? {},
    consumes: Object.keys(body),
    response: mapValues(responses, ({ description, content }) => {
      const schema = schemaIn(content)
      return schema ? { ...schema, description } : { description, type: 'null' }
    }),
  }
}

function mapValues<Value>(values: Readonly<Record<string, Value>>, map: (value: Value) => object): object {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value)]))
}

/** The schemas of a plug-in may change between two mounts. */
function addSchemas(
  app: FastifyInstance,
  { plugin }: ServedRoute,
  { schemas }: XtpSchema,
): (schema: JsonSchema) => JsonSchema {
  const digest = sha256(JSON.stringify([...schemas])).slice(0, 12)
  const idOf = (name: string) => `${namePart(plugin)}.${digest}.${namePart(name)}`
  const point = (schema: JsonSchema) => inAllVersions(mapReferences(schema, (name) => `${idOf(name)}#`))
  for (const [name, schema] of schemas) addSchemaOnce(app, idOf(name), point(schema))
  return point
}

/** The package converts the rest. */
function inAllVersions(schema: JsonSchema): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (_key, value) => {
    if (value?.contentEncoding !== 'base64') return value
    const { contentEncoding: _, ...rest } = value
    return { ...rest, format: 'byte' }
  })
}

function addSchemaOnce(app: FastifyInstance, $id: string, schema: JsonSchema): void {
  if (!app.getSchema($id)) app.addSchema({ ...schema, $id })
}
