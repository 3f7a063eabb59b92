import { expect, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'

async function ask(url: string): Promise<[status: number, body: unknown]> {
  const answer = await fetch(url)
  return [answer.status, await answer.json()]
}

test('nobody is told that it is healthy while a guest holds the event loop', async () => {
  const server = start([guest('loop'), '0', '--stall-ms', '0', '--admin', '127.0.0.1:0'])
  const url = await server.listening()
  while (!server.stderr().includes('token')) await new Promise(setImmediate)
  const adminUrl = /listener is on (\S+),/.exec(server.stderr())?.[1]
  expect(await ask(`${adminUrl}/healthz`)).toMatchObject([200, { healthy: true }])
  fetch(url, { method: 'POST', body: 'a' }).catch(() => undefined)
  const isSilent = async () => {
    const signal = AbortSignal.timeout(1_000)
    return fetch(`${adminUrl}/healthz`, { signal }).then(
      () => false,
      () => true,
    )
  }
  while (!(await isSilent())) await new Promise(setImmediate) // the call may not have begun yet
})
