import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { endpointsOf } from '../../../src/admin/api/api.ts'
import { STREAMED_CALLS } from '../../../src/admin/api/streamed-calls.ts'
import type { AdminContext } from '../../../src/admin/feature.ts'
import { parseXtpSchema } from '../../../src/route/openapi/xtp-schema.ts'
import { startWithAdmin, temporaryFolder } from '../../support/admin-api.ts'
import { run } from '../../support/cli.ts'
import { guest } from '../../support/guest.ts'

const XTP = `version: v1-draft
exports:
  echo:
    description: Gives back what it got.
    input: { contentType: application/json, $ref: '#/components/schemas/Order' }
    output: { contentType: text/plain; charset=utf-8, type: string, nullable: true }
components:
  schemas:
    Order:
      description: What is wanted.
      properties:
        picture: { type: buffer }
        size: { type: string, enum: [small, large] }
        at: { type: string, format: date-time, enum: [] }
        more: { type: array, items: { $ref: '#/components/schemas/Order' } }
      required: [size]
`

async function expectValid(document: object) {
  const validator = new Validator()
  const { valid, errors } = await validator.validate(structuredClone(document) as Record<string, unknown>)
  expect(errors).toBeUndefined()
  expect([valid, validator.version]).toEqual([true, '3.1'])
  const text = JSON.stringify(document)
  for (const [, name = ''] of text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g))
    expect(document).toHaveProperty(['components', 'schemas', name])
}

test('both documents are valid OpenAPI 3.1, and tell of all that there is', async () => {
  const cwd = temporaryFolder()
  cpSync(guest('echo'), join(cwd, 'echo.wasm'))
  writeFileSync(join(cwd, 'echo.schema.yaml'), XTP)
  const routes = [
    '{ url: /, plugin: echo.wasm, description: Says it again. }',
    "{ url: '/users/:id/:tab?', method: [GET, PUT], plugin: echo.wasm }",
    "{ url: '/files/*', method: '*', plugin: echo.wasm, contract: http }",
    "{ url: '/a::b', host: a.example, plugin: echo.wasm, errorStatus: 418 }",
    "{ url: '/a::b', host: b.example, plugin: echo.wasm }",
  ]
  writeFileSync(join(cwd, 'wasm-serve.yaml'), `routes:\n${routes.map((route) => `  - ${route}\n`).join('')}`)
  const { api, url } = await startWithAdmin([], cwd)

  const { body: admin } = await api('GET', '/openapi.json')
  await expectValid(admin)
  const described = Object.entries(admin.paths).flatMap(([path, methods]) =>
    Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
  )
  const endpoints = [...endpointsOf({} as AdminContext), ...STREAMED_CALLS] // the context is there for those that run
  expect(described.sort()).toEqual(endpoints.map(({ method, path }) => `${method} ${path}`).sort())

  const { body: document } = await api('GET', '/routes/openapi.json')
  await expectValid(document)
  expect(document.servers).toEqual([{ url }])
  expect(Object.keys(document.paths)).toEqual([
    '/',
    '/users/{id}/{tab}',
    '/users/{id}',
    '/files/{wildcard}',
    '/a:b',
  ])
  expect(document.paths['/'].post).toMatchObject({
    description: 'Says it again.',
    requestBody: {
      content: { 'application/json': { schema: { $ref: '#/components/schemas/echo.Order' } } },
    },
    responses: {
      200: { content: { 'text/plain; charset=utf-8': { schema: { type: ['string', 'null'] } } } },
    },
  })
  expect(document.components.schemas['echo.Order']).toMatchObject({
    type: 'object',
    properties: {
      picture: { type: 'string', contentEncoding: 'base64' },
      size: { enum: ['small', 'large'] },
    },
  })
  const { at } = document.components.schemas['echo.Order'].properties
  expect(at).toEqual({ type: 'string', format: 'date-time' })
  expect(document.paths['/users/{id}'].get.parameters).toEqual([
    { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
  ])
  expect(Object.keys(document.paths['/users/{id}'])).toEqual(['get', 'put', 'head'])
  expect(document.paths['/files/{wildcard}'].post.requestBody.content).toEqual({ '*/*': {} })
  expect(document.paths['/a:b'].post).toMatchObject({
    servers: [{ url: '//a.example' }],
    responses: { 418: {} },
  })

  const { code, stdout } = await run(['openapi'], {}, { cwd })
  const { servers: _, ...same } = document
  expect([code, JSON.parse(stdout)]).toEqual([0, same])
})

test('an answer of each kind is as the document says', async () => {
  const { api } = await startWithAdmin([guest('echo')])
  const { body: document } = await api('GET', '/openapi.json')
  const { Ajv2020 } = await import('ajv/dist/2020.js')
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  ajv.addSchema({ ...document, $id: 'https://example.com/api' })
  const expectDescribed = (name: string, body: unknown) => {
    const check = ajv.compile({ $ref: `https://example.com/api#/components/schemas/${name}` })
    expect([name, check(body), check.errors]).toEqual([name, true, null])
  }
  expectDescribed('Overview', (await api('GET', '/api')).body)
  expectDescribed('Plugin', (await api('GET', '/api/plugins')).body[0])
  expectDescribed('Route', (await api('GET', '/api/routes')).body[0])
  expectDescribed('ChangedRoute', (await api('POST', '/api/routes', { plugin: 'echo', url: '/a' })).body)
  expectDescribed('Route', (await api('GET', '/api/routes')).body[1])
  expectDescribed('Changed', (await api('POST', '/api/reload')).body)
  expectDescribed('Problem', (await api('POST', '/api/routes', {})).body)
  expectDescribed('Problem', (await api('PUT', '/api/plugins/echo', Uint8Array.of(1))).body)
  for (const change of (await api('GET', '/api/changes')).body) expectDescribed('Change', change)
})

test.each([
  'version: v0\nexports: [echo]\n',
  'exports: {}\n',
  ': {',
  '[]',
  '7',
  '',
])('%j is no XTP schema', async (text) => {
  expect(await parseXtpSchema(text)).toBeUndefined()
})

test.each([
  ['{ type: string }', 'text/plain'],
  ['{ type: integer }', 'application/json'],
  ['{ type: string, nullable: true }', 'application/json'],
  ['{ type: string, contentType: text/html }', 'text/html'],
])('a value of a schema has its content type, or else that of what it is: %s', async (output, contentType) => {
  const schema = await parseXtpSchema(`version: v1-draft\nexports: { a: { output: ${output} } }\n`)
  expect(schema?.exports.get('a')?.output?.contentType).toBe(contentType)
})

test('whatever a schema says, nothing is thrown', async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue(), fc.jsonValue(), async (exports, schemas) => {
      await parseXtpSchema(JSON.stringify({ version: 'v1', exports, components: { schemas } }))
      await parseXtpSchema(JSON.stringify({ version: 'v1', exports: { a: { input: exports } } }))
    }),
  )
  const deep = `${'{"items":'.repeat(500)}{}${'}'.repeat(500)}`
  expect(await parseXtpSchema(`{"version":"v1","components":{"schemas":{"A":${deep}}}}`)).toBeDefined()
})
