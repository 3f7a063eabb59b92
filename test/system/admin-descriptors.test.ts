import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { startWithAdmin, TOKEN } from '../support/admin-api.ts'
import { takeDescriptors } from '../support/descriptors.ts'
import { guest, guestBytes } from '../support/guest.ts'

test.runIf(process.platform === 'linux')(
  'a change for which the process has no descriptors left is not the fault of its plug-in',
  async () => {
    const { api, post, adminUrl } = await startWithAdmin([guest('echo'), '--workers', '1'])
    const ask = overOneConnection(adminUrl)
    for (const left of [2, 3, 4]) {
      await ask('GET', '/api') // opens the connection, which takes two descriptors of this process
      const free = takeDescriptors(left) // each is too few for another step
      const { status, body } = await ask('PUT', '/api/plugins/echo', guestBytes('upper'))
      free()
      expect([left, status]).toEqual([left, 503])
      expect(body).toMatchObject({ detail: expect.stringContaining('too many open files') })
    }
    expect(await post('/', 'abc')).toEqual([200, 'abc'])
    expect(await api('PUT', '/api/plugins/echo', guestBytes('upper'))).toMatchObject({ status: 200 })
  },
)

/** `fetch` opens another connection if the answer before has not quite ended. */
function overOneConnection(base: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => agent.destroy())
  return async (method: string, path: string, bytes?: Uint8Array) => {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/wasm' }
    const sent = request(base + path, { method, headers, agent }).end(bytes)
    const [response]: [IncomingMessage] = (await once(sent, 'response')) as [IncomingMessage]
    return { status: response.statusCode, body: await json(response) }
  }
}
