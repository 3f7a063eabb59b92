import Fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { holdBodies } from '../../../src/admin/api/endpoint.ts'

test('four bodies of the largest size may be held, and no byte more until one is given back', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  const hold = holdBodies(app, 10)
  const ends: (() => void)[] = []
  app.post('/', async (request) => {
    const reserve = hold(request)
    await new Promise<void>((resolve) => ends.push(resolve))
    reserve(0)
    return 'held'
  })
  const send = async (payload: string) => {
    const answer = await app.inject({
      method: 'POST',
      url: '/',
      payload,
      headers: { 'content-type': 'text/plain' },
    })
    return answer.statusCode === 200 ? answer.body : answer.json().code
  }
  const four = Array.from({ length: 4 }, () => send('x'.repeat(10)))
  await expect.poll(() => ends.length).toBe(4)
  expect(await send('x')).toBe('WASM_SERVE_ADMIN_BUSY')
  ends[0]?.()
  expect(await Promise.any(four)).toBe('held')
  const next = send('x')
  await expect.poll(() => ends.length).toBe(5)
  for (const end of ends) end()
  expect(await Promise.all([...four, next])).toEqual(Array(5).fill('held'))
})
