import { expect, test } from 'vitest'
import { trySmoke } from '../../../src/route/smoke.ts'

interface Received {
  readonly method: string
  readonly url: string
  readonly host: string | undefined
  readonly kind: unknown
  readonly body: unknown
}

/** Sends a smoke request to an app that answers with 200 and `well`. @returns the request. */
async function sent(smoke: object, route: object = {}): Promise<Received | undefined> {
  let received: Received | undefined
  const checked = { url: '/run/:id', ...route, smoke }
  await trySmoke(checked as never, {} as never, async (app) => {
    app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body))
    app.all('/*', async ({ method, url, headers, body }) => {
      received = { method, url, host: headers.host, kind: headers['x-kind'], body }
      return 'well'
    })
  })
  return received
}

test.each([
  [{}, {}, { method: 'POST', url: '/run/:id', host: 'localhost' }],
  [{ url: '/run/7?a=b' }, {}, { method: 'POST', url: '/run/7?a=b' }],
  [{}, { method: 'PUT' }, { method: 'PUT' }],
  [{}, { method: ['PATCH', 'GET'] }, { method: 'PATCH' }],
  [{}, { method: '*' }, { method: 'POST' }],
  [{ method: 'DELETE' }, { method: '*' }, { method: 'DELETE' }],
  [{}, { host: 'a.example' }, { host: 'a.example' }],
  [
    { headers: { 'x-kind': 'k', 'content-type': 'text/odd' }, body: 'text' },
    {},
    { host: 'localhost', kind: 'k', body: 'text' },
  ],
  [{ status: 200, answer: 'well' }, {}, {}],
])('the smoke request %j of the route %j is sent as it says', async (smoke, route, expected) => {
  expect(await sent(smoke, route)).toMatchObject(expected)
})

test.each([
  [{ status: 404 }],
  [{ answer: 'ill' }],
  [{ answer: '' }],
])('an answer that is not %j fails', async (smoke) => {
  await expect(sent(smoke)).rejects.toMatchObject({ code: 'WASM_SERVE_SMOKE_FAILED' })
})

test('a route without a smoke request is not opened', async () => {
  const opened = trySmoke({ url: '/' } as never, {} as never, () =>
    Promise.reject(new Error('it was opened')),
  )
  await expect(opened).resolves.toBeUndefined()
})
