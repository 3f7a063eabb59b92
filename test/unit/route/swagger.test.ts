import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { wasmServe } from '../../../src/index.ts'
import { temporaryFolder } from '../../support/admin-api.ts'
import { guest } from '../../support/guest.ts'

const XTP = `version: v1-draft
exports:
  echo:
    input: { contentType: application/json, $ref: '#/components/schemas/Order' }
    output: { contentType: application/json, $ref: '#/components/schemas/Order' }
components:
  schemas:
    Order: { properties: { size: { type: integer } }, required: [size], additionalProperties: { type: integer } }
`

/** A plug-in with an XTP schema. */
function described(): string {
  const plugin = join(temporaryFolder(), 'echo.wasm')
  copyFileSync(guest('echo'), plugin)
  writeFileSync(schemaOf(plugin), XTP)
  return plugin
}

const schemaOf = (plugin: string) => plugin.replace(/wasm$/, 'schema.yaml')

interface Config {
  swaggerTransform?(asked: object): { schema: Record<string, unknown>; url: string }
}

/** An app with a package that makes documents, and what the package learns of a route. */
async function mount(plugins: Iterable<string>, isSwagger = true) {
  const app = Fastify()
  onTestFinished(() => app.close())
  if (isSwagger) app.decorate('swagger', () => ({}))
  const seen: { schema: unknown; transform: Config['swaggerTransform']; method: string; url: string }[] = []
  app.addHook('onRoute', ({ schema, config, method, url }) => {
    seen.push({ schema, transform: (config as Config).swaggerTransform, method: String(method), url })
  })
  let mounts = 0
  for (const plugin of plugins)
    await app.register(wasmServe, {
      prefix: `/${mounts++}`,
      logLevel: 'silent',
      routes: [{ url: '/echo/:id?', method: ['GET', 'POST'], plugin }],
    })
  await app.ready()
  const documents = seen.map(({ transform, method, url }) =>
    transform?.({ url, route: { method }, openapiObject: {} }),
  )
  return { app, seen, documents }
}

test('the schema of a route documents only: what does not fit it reaches the guest, and its answer the client', async () => {
  const { app, seen, documents } = await mount([described()])
  expect(seen.map(({ schema }) => schema)).toEqual([undefined, undefined, undefined])
  expect(documents[1]).toMatchObject({
    url: '/0/echo/:id',
    schema: {
      operationId: 'post_0_echo_id',
      summary: 'echo of echo',
      body: {
        content: {
          'application/json': { schema: { $ref: expect.stringMatching(/\.Order#$/) } },
        },
      },
    },
  })
  const payload = '{ "size" : "large", "more":[] }'
  const answer = await app.inject({
    method: 'POST',
    url: '/0/echo',
    headers: { 'content-type': 'application/json' },
    payload,
  })
  expect([answer.statusCode, answer.body]).toEqual([200, payload])
})

test('a GET has no body, and methods that OpenAPI does not know are left out', async () => {
  const { documents, seen } = await mount([described()])
  expect(documents[0]?.schema).toMatchObject({ operationId: 'get_0_echo_id', response: { 200: {}, 409: {} } })
  expect(documents[0]?.schema).not.toHaveProperty('body')
  const asked = { url: '/0/echo', route: { method: 'QUERY' }, openapiObject: {} }
  expect(seen[0]?.transform?.(asked).schema).toEqual({ hide: true })
})

test('two mounts of a plug-in whose schemas change in between keep them apart', async () => {
  function* plugins() {
    const plugin = described()
    yield plugin
    writeFileSync(schemaOf(plugin), XTP.replace('integer', 'string'))
    yield plugin
  }
  const { documents } = await mount(plugins())
  const [one, other] = [documents[1], documents[4]].map((document) => JSON.stringify(document?.schema.body))
  expect(one).toContain('Order#')
  expect(other).toContain('Order#')
  expect(one).not.toBe(other)
})

test('an app without documents pays nothing for them', async () => {
  const { seen, app } = await mount([described()], false)
  expect(seen.map(({ transform }) => transform)).toEqual([undefined, undefined, undefined])
  expect(app.getSchemas()).toEqual({})
})
