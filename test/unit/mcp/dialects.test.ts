import { describe, expect, test } from 'vitest'
import { inCurrentDialect, schemasIn, withoutNullKeywords } from '../../../src/mcp/dialects.ts'

const DRAFT_7 = 'http://json-schema.org/draft-07/schema#'

/** A schema of a generator, and what clients get. */
const [GIVEN, CLEAN] = [{ type: 'string', enum: null }, { type: 'string' }]

/** Keywords with schemas in them, of draft-06 to 2020-12. (JSON Schema: A Vocabulary for Applying Subschemas, and draft-07, section 6) */
const PLACES = {
  schema: [
    ...['not', 'if', 'then', 'else', 'items', 'contains', 'propertyNames'],
    ...['additionalItems', 'additionalProperties', 'unevaluatedItems', 'unevaluatedProperties'],
  ],
  list: ['allOf', 'anyOf', 'oneOf', 'items', 'prefixItems'],
  object: ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'],
}

const FORMS = {
  schema: (each: object) => each,
  list: (each: object) => [true, each],
  object: (each: object) => ({ a: true, b: each }),
}

describe.each(['schema', 'list', 'object'] as const)('in a keyword with schemas (%s)', (form) => {
  test.each(PLACES[form])('a schema in %s is found, and loses keywords that are null', (keyword) => {
    const within = (each: object) => ({ [keyword]: FORMS[form](each) })
    expect(withoutNullKeywords(within(GIVEN))).toEqual(within(CLEAN))
    expect(schemasIn(within(GIVEN))).toEqual([GIVEN])
  })
})

test('a value that is no schema stays as it is, and so does null where it is a value', () => {
  const schema = {
    const: null,
    default: null,
    examples: [GIVEN],
    enum: [GIVEN],
    items: true,
    not: { default: null },
  }
  expect(withoutNullKeywords(schema)).toEqual(schema)
  expect(schemasIn(schema)).toEqual([{ default: null }])
})

test.each([
  ['a list of items', { items: [{}, true] }, { prefixItems: [{}, true] }],
  [
    'a list of items, and those behind it',
    { items: [{}], additionalItems: false },
    { prefixItems: [{}], items: false },
  ],
  ['one schema for all items', { items: {}, additionalItems: false }, { items: {} }],
  [
    'dependencies',
    { dependencies: { a: ['b'], c: { required: ['d'] } } },
    { dependentRequired: { a: ['b'] }, dependentSchemas: { c: { required: ['d'] } } },
  ],
  [
    'a list of items in a definition',
    { $defs: { a: { items: [{}] } } },
    { $defs: { a: { prefixItems: [{}] } } },
  ],
])('%s of an older dialect are written as in the current one', (_what, older, current) => {
  expect(inCurrentDialect({ $schema: DRAFT_7, type: 'object', ...older })).toEqual({
    type: 'object',
    ...current,
  })
})

test.each([
  ['http://json-schema.org/draft-06/schema#', true],
  ['http://json-schema.org/draft-07/schema', true],
  ['https://json-schema.org/draft-07/schema#', true],
  ['https://json-schema.org/draft/2019-09/schema', true],
  ['https://json-schema.org/draft/2020-12/schema', false],
  ['http://json-schema.org/draft-04/schema#', false],
  ['https://a.example/?http://json-schema.org/draft-07/schema#', false],
  [7, false],
])('whether a schema of the dialect %s is converted: %s', ($schema, isConverted) => {
  const schema = { $schema, items: [{}] }
  expect(inCurrentDialect(schema)).toEqual(isConverted ? { prefixItems: [{}] } : schema)
})
