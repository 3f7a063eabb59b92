import { expect, test } from 'vitest'
import { ask, open, serveHttp } from '../support/outbound.ts'

test('an idle connection is closed after a while', async () => {
  const origin = await serveHttp((_request, response) => void response.end('ok'))
  await ask(open(), origin.url)
  await origin.allClosed()
  expect(origin.accepted).toBe(1)
})
