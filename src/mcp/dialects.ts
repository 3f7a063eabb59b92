import { isObject } from '../platform/json-text.ts'
import type { Members } from './json-rpc.ts'

/** Dialects of which the current one is nearly a superset. Generators of schemas still write them. */
const OLDER = /^https?:\/\/json-schema\.org\/(?:draft-0[67]|draft\/2019-09)\/schema#?$/

/**
 * A schema of an older dialect (draft-06, draft-07, 2019-09) in the current one, 2020-12, which is the only one that all clients
 * read. Others are returned as they are.
 */
export function inCurrentDialect(schema: Members): Members {
  const { $schema, ...rest } = schema
  return typeof $schema === 'string' && OLDER.test($schema) ? converted(rest) : schema
}

/** A schema without keywords that are null: programs in Go write lists that are empty so. */
export function withoutNullKeywords(schema: Members): Members {
  const given = Object.entries(schema).filter(
    ([keyword, value]) => value !== null || MAY_BE_NULL.has(keyword),
  )
  return Object.fromEntries(
    given.map(([keyword, value]) => [keyword, withSchemas(keyword, value, withoutNullKeywords)]),
  )
}

const MAY_BE_NULL: ReadonlySet<string> = new Set(['const', 'default'])

/** Keywords with a schema, or with a list of schemas. */
const WITH_SCHEMAS: ReadonlySet<string> = new Set([
  ...[
    'allOf',
    'anyOf',
    'oneOf',
    'not',
    'if',
    'then',
    'else',
    'items',
    'prefixItems',
    'contains',
    'propertyNames',
  ],
  ...['additionalItems', 'additionalProperties', 'unevaluatedItems', 'unevaluatedProperties'],
])

/** Keywords with an object of schemas. */
const WITH_NAMED_SCHEMAS: ReadonlySet<string> = new Set([
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'],
])

function converted(schema: Members): Members {
  const own = Object.entries(schema).map(([keyword, value]) => [
    keyword,
    withSchemas(keyword, value, converted),
  ])
  const { items, additionalItems, dependencies, ...others }: Members = Object.fromEntries(own)
  return {
    ...others,
    ...(Array.isArray(items) && {
      prefixItems: items,
      ...(additionalItems !== undefined && { items: additionalItems }),
    }),
    ...(items !== undefined && !Array.isArray(items) && { items }),
    ...(isObject(dependencies) && splitDependencies(dependencies)),
  }
}

/** The value of a keyword with other schemas in it. */
function withSchemas(keyword: string, value: unknown, change: (schema: Members) => Members): unknown {
  const convert = (each: unknown) => (isObject(each) ? change(each) : each)
  if (WITH_SCHEMAS.has(keyword)) return Array.isArray(value) ? value.map(convert) : convert(value)
  if (!WITH_NAMED_SCHEMAS.has(keyword) || !isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, convert(each)]))
}

/** A dependency is a list of properties, or a schema. */
function splitDependencies(dependencies: Members): Members {
  const all = Object.entries(dependencies)
  const lists = all.filter(([, each]) => Array.isArray(each))
  const schemas = all.filter(([, each]) => !Array.isArray(each))
  return {
    ...(lists.length > 0 && { dependentRequired: Object.fromEntries(lists) }),
    ...(schemas.length > 0 && { dependentSchemas: Object.fromEntries(schemas) }),
  }
}

/** The schemas in the keywords of a schema. */
export function schemasIn(schema: Members): Members[] {
  const found: Members[] = []
  const find = (each: Members) => {
    found.push(each)
    return each
  }
  for (const [keyword, value] of Object.entries(schema)) withSchemas(keyword, value, find)
  return found
}
