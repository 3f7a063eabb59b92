import { expect, test } from 'vitest'
import { start } from './support/cli.ts'
import { guest } from './support/guest.ts'
import { listen, serve } from './support/serve.ts'

test('smoke', async () => {
  const app = await serve({ plugin: guest('upper') })
  const reply = await app.inject({ method: 'POST', url: '/', body: 'abc' })
  expect(reply.body).toBe('ABC')
  const s = await listen({ plugin: guest('echo') })
  expect(await (await fetch(s.url, { method: 'POST', body: 'hi' })).text()).toBe('hi')
  const c = start([guest('echo'), '0'])
  const url = await c.listening()
  expect(await (await fetch(url, { method: 'POST', body: 'hi' })).text()).toBe('hi')
  c.child.kill('SIGTERM')
  expect((await c.ended).code).toBe(0)
})
