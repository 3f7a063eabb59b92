import { expect, test } from 'vitest'
import { processEndpoints } from '../../../src/admin/api/process-endpoints.ts'

test('a restart responds when all serving processes are replaced, with the new ones', async () => {
  const list = [{ number: 1, pid: 10 }]
  const reasons: string[] = []
  const restart = async (reason: string) => {
    reasons.push(reason)
    list[0] = { number: 1, pid: 11 }
  }
  const endpoints = processEndpoints({ processes: { list, restart } } as never)
  const endpoint = endpoints.find(({ id }) => id === 'restart')
  expect(await endpoint?.run({ ifMatch: undefined } as never, {} as never, {} as never)).toMatchObject([
    { pid: 11 },
  ])
  expect(reasons).toEqual(['POST /api/restart'])
  const tagged = { ifMatch: '"of before"' }
  await expect(endpoint?.run(tagged as never, { tag: 'now' } as never, {} as never)).rejects.toMatchObject({
    code: 'WASM_SERVE_REVISION_MISMATCH',
  })
  expect(reasons).toHaveLength(1)
})
