import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { mapShapes, orNull } from '../../../scripts/chart-shapes.ts'
import { chartConfigProperties } from '../../../scripts/config-schema.ts'

const PATH = new URL('../../../deploy/helm/wasm-serve/values.schema.json', import.meta.url)

test('the chart accepts what a config file may have (npm run reference)', () => {
  const { config } = JSON.parse(readFileSync(PATH, 'utf8')).properties
  expect(config.properties).toEqual(mapShapes(chartConfigProperties(), orNull))
})
