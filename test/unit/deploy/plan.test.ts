import { expect, test } from 'vitest'
import { explainPlanFailure, type Plan } from '../../../src/deploy/plan.ts'
import { COMMAND_LINE, fromData, mapOf } from '../../../src/options/config-node.ts'
import { checkLoadOptions, checkServerOptions } from '../../../src/options/options.ts'

/** A plan of routes whose plug-ins are not there. */
function planOf(count: number): Pick<Plan, 'options' | 'routes' | 'node'> {
  const routes = Array.from({ length: count }, (_, at) => ({ url: `/r${at}`, plugin: `/nowhere/${at}.wasm` }))
  const loaded = routes.map(() => ({ plugin: {} }) as Plan['routes'][number])
  const file = { kind: 'file', file: 'wasm-serve.yaml', line: 3, column: 7 } as const
  const node = mapOf([['tls', fromData({}, file)]], COMMAND_LINE)
  return { options: { ...checkLoadOptions({}), ...checkServerOptions({ routes }) }, routes: loaded, node }
}

const coded = (code: string) => Object.assign(new Error('it did not start'), { code })

test('of one route, the failure of the start is its own, and it is not opened again', async () => {
  const error = coded('WASM_SERVE_INSTANCE_START_FAILED')
  expect(await explainPlanFailure(planOf(1), error)).toBe(error)
})

test('of several routes, each that cannot be opened is named', async () => {
  const explained = await explainPlanFailure(planOf(2), coded('WASM_SERVE_INSTANCE_START_FAILED'))
  expect(explained).toMatchObject({ code: 'WASM_SERVE_CHECK_FAILED' })
  expect(String(explained)).toContain('/nowhere/0.wasm')
  expect(String(explained)).toContain('/nowhere/1.wasm')
})

test('a failure of an option of the server has the line of the option', async () => {
  const explained = await explainPlanFailure(planOf(1), coded('WASM_SERVE_TLS_INVALID'))
  expect(String(explained)).toContain('wasm-serve.yaml:3:7')
})
