import { configFileSchema } from '../src/options/config-file-schema.ts'
import { optionsWhere } from '../src/options/facts.ts'
import type { Schema } from '../src/options/schema.ts'

/*
 * The schema of config files for programs that know nothing of wasm-serve: plain JSON Schema, in which any value that is
 * not free text may also be text with a variable.
 */

const VARIABLE = '\\$\\{'
/** A size, or a time. */
const UNIT_OR_VARIABLE = `^\\d+(\\.\\d+)?\\s*[a-zA-Z]*$|${VARIABLE}`

/** The schema for editors, published as `wasm-serve/schema.json`. */
export function publishedSchema(): object {
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Configuration of wasm-serve',
    ...publish({ ...configFileSchema, patternProperties: { '^x-': {} } }),
  }
}

/** Options that the chart sets from values of its own. */
const OF_CHART = new Set(['$schema', ...optionsWhere('server', ({ chart }) => chart)])

/**
 * The schemas of the keys of `config` in the values of the Helm chart. A secret must be a variable there, because the values become
 * a ConfigMap.
 */
export function chartConfigProperties(): Readonly<Record<string, object>> {
  const properties = Object.entries(configFileSchema.properties ?? {}).filter(([name]) => !OF_CHART.has(name))
  return publishEach(Object.fromEntries(properties), { areSecretsVariables: true })
}

interface Form {
  readonly areSecretsVariables: boolean
}

function publish(
  {
    facts: _facts,
    holds: _holds,
    hint: _hint,
    public: _public,
    secret,
    unit,
    allowedHost: _host,
    ...schema
  }: Schema,
  form: Form = { areSecretsVariables: false },
): object {
  const { description, properties, patternProperties, additionalProperties, items } = schema
  if (secret && form.areSecretsVariables) return { description, type: 'string', pattern: VARIABLE }
  const choices = choicesOf(schema)
  if (choices) {
    const { default: value } = schema
    const pattern = unit === undefined ? VARIABLE : UNIT_OR_VARIABLE
    return { description, default: value, anyOf: [...choices, { type: 'string', pattern }] }
  }
  return {
    ...schema,
    ...(properties && { properties: publishEach(properties, form) }),
    ...(patternProperties && { patternProperties: publishEach(patternProperties, form) }),
    ...(typeof additionalProperties === 'object' && {
      additionalProperties: publish(additionalProperties, form),
    }),
    ...(items && { items: publish(items, form) }),
  }
}

/** A schema that also allows text with a variable; undefined if it allows any text already. */
function choicesOf({ description: _, default: _default, ...schema }: Schema): readonly object[] | undefined {
  if (schema.threadCount) return [{ type: 'integer', minimum: 0, maximum: 256 }, { const: 'auto' }]
  if (schema.anyOf) return schema.anyOf
  const isNarrow = schema.type === 'integer' || schema.type === 'boolean' || schema.enum || schema.pattern
  return isNarrow ? [schema] : undefined
}

function publishEach(
  schemas: Readonly<Record<string, Schema>>,
  form: Form,
): Readonly<Record<string, object>> {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, publish(schema, form)]))
}
