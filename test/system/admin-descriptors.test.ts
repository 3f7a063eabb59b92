import { expect, test } from 'vitest'
import { startWithAdmin } from '../support/admin-api.ts'
import { takeDescriptors } from '../support/descriptors.ts'
import { guest, guestBytes } from '../support/guest.ts'

test.runIf(process.platform === 'linux')(
  'a change for which the process has no descriptors left is not the fault of its plug-in',
  async () => {
    const { api, post } = await startWithAdmin([guest('echo'), '--workers', '1'])
    for (const left of [2, 3, 4]) {
      await api('GET', '/api') // opens the connection
      const free = takeDescriptors(left) // each is too few for another step
      const { status, body } = await api('PUT', '/api/plugins/echo', guestBytes('upper'))
      free()
      expect([left, status]).toEqual([left, 503])
      expect(body.detail).toContain('too many open files')
    }
    expect(await post('/', 'abc')).toEqual([200, 'abc'])
    expect(await api('PUT', '/api/plugins/echo', guestBytes('upper'))).toMatchObject({ status: 200 })
  },
)
