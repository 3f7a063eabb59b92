import { expect, test } from 'vitest'
import * as errors from '../../../src/errors/errors.ts'
import { restoreError } from '../../../src/errors/failure.ts'
import { optionsByError, optionsWhere } from '../../../src/options/facts.ts'
import { routeSchema } from '../../../src/options/options-schema.ts'
import { type Schema, schemasOf } from '../../../src/options/schema.ts'

test('options name failures that there are', () => {
  expect(Object.keys(errors).length).toBeGreaterThan(50)
  for (const scope of ['route', 'load', 'server'] as const)
    for (const [code, option] of optionsByError(scope))
      expect(restoreError(code, 'a message', undefined), `${option} ${code}`).toBeInstanceOf(Error)
})

test('no option that an edit may set holds a path of this machine or a function', () => {
  const schemas = schemasOf(routeSchema)
  const editable = [...optionsWhere('route', ({ edit }) => edit)]
  expect(editable.length).toBeGreaterThan(40)
  expect(editable.filter((name) => refersToMachine(schemas[name] ?? {}))).toEqual([])
  expect(refersToMachine(schemas.allowedPaths ?? {})).toBe(true)
})

function refersToMachine(schema: Schema): boolean {
  const { holds, hostFunctions, callHook, pluginSource, properties, patternProperties, items } = schema
  if (holds || hostFunctions || callHook || pluginSource) return true
  return [...Object.values({ ...properties, ...patternProperties }), ...(items ? [items] : [])].some(
    refersToMachine,
  )
}
