import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import Fastify, { type FastifyPluginAsync } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { wasmServe, wasmServeMcp } from '../../src/index.ts'
import { guest } from '../support/guest.ts'
import { describeWith } from '../support/tools.ts'

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
        more: { type: array, items: { $ref: '#/components/schemas/Order' } }
      required: [size]
`

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, unknown>>>>>>
}

describeWith(['@fastify/swagger'], () => {
  /** The document of an app with routes of ours beside its own. */
  async function documentOf(options: object): Promise<Document> {
    const swagger: FastifyPluginAsync<object> = createRequire(import.meta.url)('@fastify/swagger')
    const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-swagger-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const plugin = join(folder, 'echo.wasm')
    copyFileSync(guest('echo'), plugin)
    writeFileSync(join(folder, 'echo.schema.yaml'), XTP)
    const app = Fastify()
    onTestFinished(() => app.close())
    await app.register(swagger, options)
    app.get('/own', () => 'own')
    await app.register(wasmServe, {
      prefix: '/p',
      logLevel: 'silent',
      routes: [
        { url: '/echo', plugin, description: 'Says it again.' },
        { url: '/users/:id/:tab?', method: ['GET', 'PUT'], plugin },
        { url: '/a::b', plugin, errorStatus: 418 },
      ],
    })
    await app.register(wasmServeMcp, {
      logLevel: 'silent',
      routes: [{ url: '/files/*', method: '*', contract: 'http', plugin, tool: { name: 'files' } }],
    })
    await app.ready()
    const { swagger: document } = app as typeof app & { swagger(): Document }
    return document()
  }

  test.each([
    ['3.0', { openapi: {} }],
    ['3.0', { exposeHeadRoutes: true, openapi: {} }],
    ['3.1', { openapi: { openapi: '3.1.0' } }],
    ['2.0', {}],
  ])('the document of an app is valid in version %s, with one operation for each method: %j', async (version, options) => {
    const document = await documentOf(options)
    const validator = new Validator()
    const { valid, errors } = await validator.validate({ ...structuredClone(document) })
    expect([errors, valid, validator.version]).toEqual([undefined, true, version])
    const operations = Object.entries(document.paths).map(([path, methods]) => [
      path,
      Object.keys(methods).sort(),
    ])
    const heads = 'exposeHeadRoutes' in options ? ['head'] : []
    expect(Object.fromEntries(operations)).toMatchObject({
      '/own': ['get', ...heads],
      '/p/echo': ['post'],
      '/p/users/{id}/{tab}': ['get', ...heads, 'put'],
      '/p/a:b': ['post'],
    })
    expect(operations).toHaveLength(5) // not the endpoint of agents
    expect(document.paths['/p/echo']?.post).toMatchObject({
      operationId: 'post_p_echo',
      summary: 'echo of echo',
      description: 'Says it again.',
      responses: { 200: {}, 409: {}, default: {} },
    })
    for (const [, name] of JSON.stringify(document).matchAll(/"#\/([\w/-]+)"/g))
      expect(document).toHaveProperty(String(name).split('/'))
  })

  test('a body and an output have the schemas of the plug-in', async () => {
    const document = await documentOf({ openapi: { openapi: '3.1.0' } })
    expect(document.paths['/p/echo']?.post).toMatchObject({
      requestBody: { content: { 'application/json': { schema: { $ref: expect.any(String) } } } },
      responses: {
        200: { content: { 'text/plain; charset=utf-8': { schema: { type: ['string', 'null'] } } } },
        default: { content: { 'application/problem+json': { schema: { $ref: expect.any(String) } } } },
      },
    })
    expect(document.paths['/p/users/{id}/{tab}']?.get).not.toHaveProperty('requestBody')
  })
})
