import { expect, test } from 'vitest'
import { webOriginCheck } from '../../../src/platform/web-origin.ts'

const rules = { hosts: ['Tools.example'], origins: ['https://App.example'] }
const check = webOriginCheck(rules)
const LINK = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }

test.each([
  [{ host: '127.0.0.1:1' }, undefined],
  [{ host: 'tools.example' }, undefined],
  [{ ':authority': 'localhost' }, undefined],
  [{}, 'host'],
  [{ host: '' }, 'host'],
  [{ host: 'localhost.evil.example' }, 'host'],
  [{ host: 'evil.example', origin: 'http://evil.example' }, 'host'],
  [{ host: '[::1]:1', origin: 'http://[::1]:1' }, undefined],
  [{ host: 'tools.example', origin: 'https://tools.example' }, undefined],
  [{ host: 'localhost', origin: 'https://APP.example', 'sec-fetch-site': 'cross-site' }, undefined],
  [{ host: '127.0.0.1:1', origin: 'http://127.0.0.1:2' }, 'origin'],
  [{ host: '127.0.0.1:1', origin: 'http://localhost:1' }, 'origin'],
  [{ host: '127.0.0.1', origin: 'null' }, 'origin'],
  [{ host: '127.0.0.1', origin: 'x' }, 'origin'],
  [{ host: '127.0.0.1', origin: 'https://app.example.evil.example' }, 'origin'],
  [{ host: '127.0.0.1', 'sec-fetch-site': 'none' }, undefined],
  [{ host: '127.0.0.1', 'sec-fetch-site': 'same-origin' }, undefined],
  [{ host: '127.0.0.1', 'sec-fetch-site': 'same-site' }, 'site'],
  [{ host: '127.0.0.1', 'sec-fetch-site': 'cross-site', ...LINK }, undefined],
  [{ host: '127.0.0.1', 'sec-fetch-site': 'cross-site', ...LINK, 'sec-fetch-dest': 'iframe' }, 'site'],
])('the foreign sign of %j: %s', (headers, sign) => {
  expect(check({ method: 'GET', headers })).toBe(sign)
})

test('a form of another site is foreign, although it navigates', () => {
  const headers = { host: '127.0.0.1', 'sec-fetch-site': 'cross-site', ...LINK }
  expect(check({ method: 'POST', headers })).toBe('site')
})

test('a name that was known once does not make another one known', () => {
  const hosts = ['localhost', 'evil.example', 'localhost', 'evil.example']
  expect(hosts.map((host) => check({ headers: { host } }))).toEqual([undefined, 'host', undefined, 'host'])
})

test('pages of this machine, any page and any name are known only where the rules say so', () => {
  const host = '127.0.0.1:1'
  for (const origin of ['http://localhost:5173', 'https://127.1.2.3', 'http://[::1]:8'])
    expect(webOriginCheck({ allowsLocalPages: true })({ headers: { host, origin } })).toBeUndefined()
  const near = { host, origin: 'http://localhost.evil.example' }
  expect(webOriginCheck({ allowsLocalPages: true })({ headers: near })).toBe('origin')
  expect(webOriginCheck({ origins: ['*'] })({ headers: { host, origin: 'null' } })).toBeUndefined()
  expect(webOriginCheck({})({ headers: { host: 'any.example' } })).toBeUndefined()
})
