import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jwtVerify } from 'jose'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions, type ServerOptions } from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { COOL_DOWN_MS, FRESH_MS, RemoteKeys, STALE_MS } from '../../src/server/edge/jwt-keys.ts'
import { selfSigned } from '../support/certificate.ts'
import { guest } from '../support/guest.ts'
import { type Issuer, openIssuer, signingKey, tokenOf } from '../support/issuer.ts'
import { sendInterim } from '../support/outbound.ts'
import { serve } from '../support/serve.ts'

/* Keys of tokens that are at a URL. */

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-jwks-'))
afterAll(() => rmSync(folder, { recursive: true }))

const one = signingKey('one')
const two = signingKey('two', 'RS256')

function jwtOf({ url, certificate }: Issuer): NonNullable<ServerOptions['jwt']> {
  const jwksCa = join(folder, 'ca.pem')
  writeFileSync(jwksCa, certificate.cert)
  return { jwksUrl: url, jwksCa }
}

/** A server whose tokens are those of the issuer; asks it something with a token. */
async function serveFor(issuer: Issuer, options: Partial<NonNullable<ServerOptions['jwt']>> = {}) {
  const app = await serve({ plugin: guest('echo') }, { jwt: { ...jwtOf(issuer), ...options } })
  return (token?: string) =>
    app.inject({
      method: 'POST',
      url: '/',
      body: 'hi',
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    })
}

test('a token is verified with a key of the URL, and other tokens are refused', async () => {
  const issuer = await openIssuer([one.jwk, two.jwk])
  const ask = await serveFor(issuer)
  expect((await ask(tokenOf(one))).body).toBe('hi')
  expect((await ask(tokenOf(two))).body).toBe('hi')
  const forged = signingKey('one')
  for (const bad of [undefined, tokenOf(forged), tokenOf({ ...two, kid: 'one' }), 'x.y.z', '']) {
    const refused = await ask(bad)
    expect(refused.json()).toMatchObject({ status: 401, code: 'WASM_SERVE_TOKEN_REFUSED' })
    expect(refused.headers['www-authenticate']).toMatch(/^Bearer/)
  }
  expect(issuer.asked).toEqual(['/keys', '/keys']) // again, because of the key that does not fit its algorithm
})

test('audience, issuer, expiry and algorithms count as with other keys', async () => {
  const issuer = await openIssuer([one.jwk, two.jwk])
  const ask = await serveFor(issuer, { audience: ['us'], issuer: ['me'], algorithms: ['ES256'] })
  const right = { aud: 'us', iss: 'me' }
  expect((await ask(tokenOf(one, right))).statusCode).toBe(200)
  for (const bad of [
    { ...right, aud: 'them' },
    { aud: 'us' },
    { ...right, exp: 1 },
    { ...right, exp: undefined },
  ])
    expect((await ask(tokenOf(one, bad))).statusCode).toBe(401)
  expect((await ask(tokenOf(two, right))).statusCode).toBe(401)
})

test('after a rotation tokens of the new key are good at once, and those of the old one no more', async () => {
  const issuer = await openIssuer([one.jwk])
  const ask = await serveFor(issuer)
  expect((await ask(tokenOf(one))).statusCode).toBe(200)
  issuer.keys = [two.jwk]
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(tokenOf(two))))
  expect(answers.map(({ statusCode }) => statusCode)).toEqual(answers.map(() => 200))
  expect((await ask(tokenOf(one))).statusCode).toBe(401)
  expect(issuer.asked).toHaveLength(2)
})

test('tokens with keys that nobody knows do not make the server ask the issuer again and again', async () => {
  const issuer = await openIssuer([one.jwk])
  const ask = await serveFor(issuer)
  for (let round = 0; round < 3; round++) {
    const unknown = Array.from({ length: 20 }, (_, index) =>
      ask(tokenOf({ ...one, kid: `${round} ${index}` })),
    )
    for (const { statusCode } of await Promise.all(unknown)) expect(statusCode).toBe(401)
  }
  // Neither do those that name no key, or an algorithm that no key of a set is for.
  await ask(tokenOf({ ...two, kid: undefined }))
  await ask(tokenOf({ ...two, alg: 'HS256' }))
  expect(issuer.asked.length).toBeLessThanOrEqual(2)
  expect((await ask(tokenOf(one))).statusCode).toBe(200)
})

test.each<[string, (issuer: Issuer) => Issuer['answer'] | 'down' | 'other authority']>([
  ['is not there', () => 'down'],
  ['has a certificate of another authority', () => 'other authority'],
  [
    'answers with a redirect',
    ({ url }) =>
      (_, response) =>
        response.writeHead(302, { location: `${url}2` }).end(),
  ],
  ['answers with 404', () => (_, response) => response.writeHead(404).end('{"keys":[]}')],
  ['answers with 500', () => (_, response) => response.writeHead(500).end()],
  ['closes the connection', () => (request) => request.socket.destroy()],
  [
    'sends interim responses without end',
    () =>
      ({ socket }) =>
        sendInterim(socket),
  ],
  ['answers with no JSON', () => (_, response) => response.end('<html>')],
  ['answers with no set', () => (_, response) => response.end('[]')],
  ['answers with no keys', () => (_, response) => response.end('{"keys":[]}')],
  [
    'answers with more than the limit',
    () => (_, response) => response.end(`{"keys":[${' '.repeat(300_000)}]}`),
  ],
  [
    'answers with more than the limit, and does not say so',
    () => (_, response) => {
      response.write(' '.repeat(300_000))
    },
  ],
  [
    'has too many keys',
    () => (_, response) => response.end(JSON.stringify({ keys: Array.from({ length: 101 }, () => one.jwk) })),
  ],
  [
    'has keys for something else only',
    () => (_, response) =>
      response.end(
        JSON.stringify({ keys: [{ ...one.jwk, use: 'enc' }, { kty: 'oct', k: 'AAAA' }, null, 7] }),
      ),
  ],
])('while an issuer %s, requests are told 503, and no token is good', async (_, make) => {
  const issuer = await openIssuer([one.jwk])
  const how = make(issuer)
  if (how === 'down') await issuer.down()
  else if (how !== 'other authority') issuer.answer = how
  const ask = await serveFor(issuer, how === 'other authority' ? { jwksCa: otherAuthority() } : {})
  for (const token of [tokenOf(one), tokenOf(two)]) {
    const refused = await ask(token)
    expect(refused.json()).toMatchObject({ status: 503, code: 'WASM_SERVE_JWT_KEYS_UNAVAILABLE' })
    expect(refused.headers).toMatchObject({ 'retry-after': expect.stringMatching(/^\d+$/) })
    expect(refused.body).not.toContain('localhost')
  }
  expect((await ask()).json()).toMatchObject({ status: 401, code: 'WASM_SERVE_TOKEN_REFUSED' })
  expect(issuer.asked.filter((path) => path !== '/keys')).toEqual([])
  expect(issuer.asked.length).toBeLessThanOrEqual(1)
})

function otherAuthority(): string {
  const path = join(folder, 'other.pem')
  writeFileSync(path, selfSigned('localhost').cert)
  return path
}

test('keys of a set that cannot be used are left out, and the others count', async () => {
  const issuer = await openIssuer([
    { kty: 'new', kid: 'x' },
    { kty: 'oct', k: 'AAAA', kid: 'y' },
    null,
    one.jwk,
  ])
  const ask = await serveFor(issuer)
  expect((await ask(tokenOf(one))).statusCode).toBe(200)
})

test('the apps that a server has one after the other share the keys', async () => {
  const issuer = await openIssuer([one.jwk])
  const options = checkServerOptions({ routes: [{ plugin: guest('echo') }], stallMs: 0, jwt: jwtOf(issuer) })
  const keys = {}
  const open = async () => {
    const { app } = await createApp(options, openLog('silent'), { keys })
    onTestFinished(() => app.close())
    return app
  }
  const status = async (app: Awaited<ReturnType<typeof open>>) => {
    const headers = { authorization: `Bearer ${tokenOf(one)}` }
    return (await app.inject({ method: 'POST', url: '/', headers })).statusCode
  }
  const first = await open()
  expect(await status(first)).toBe(200)
  await issuer.down()
  const second = await open()
  await first.close()
  expect(await status(second)).toBe(200)
  await second.close()
  // What is closed is not used again.
  expect(await status(await open())).toBe(503)
})

test('a server that closes waits for no issuer', async () => {
  const issuer = await openIssuer()
  const asked = new Promise<void>((resolve) => {
    issuer.answer = () => resolve() // and no answer
  })
  const app = await serve({ plugin: guest('echo') }, { jwt: jwtOf(issuer) })
  await asked
  await app.close()
})

/* With a clock of the test's. */

interface Clock {
  ms: number
}

function openKeys(issuer: Issuer, clock: Clock, timeoutMs?: number) {
  const lines: { level: string; msg: string; url?: string; code?: string; reason?: string }[] = []
  const log = openLog('info', { lines: { write: (line: string) => void lines.push(JSON.parse(line)) } })
  const { url, certificate } = issuer
  const now = () => clock.ms
  const keys = new RemoteKeys({
    url: new URL(url),
    ca: certificate.cert,
    log,
    now,
    ...(timeoutMs && { timeoutMs }),
  })
  onTestFinished(keys.use())
  const isGood = (token: string) =>
    jwtVerify(token, keys.keyFor).then(
      () => true,
      (error) => String(error.code),
    )
  return { isGood, lines }
}

const NO_KEY = 'ERR_JWKS_NO_MATCHING_KEY'
const UNAVAILABLE = 'WASM_SERVE_JWT_KEYS_UNAVAILABLE'

test('a key that the issuer has taken back counts until the keys are fetched again', async () => {
  const issuer = await openIssuer([one.jwk])
  const clock = { ms: 0 }
  const { isGood } = openKeys(issuer, clock)
  expect(await isGood(tokenOf(one))).toBe(true)
  issuer.keys = [two.jwk]
  clock.ms += FRESH_MS - 1
  expect(await isGood(tokenOf(one))).toBe(true)
  clock.ms += 1
  expect(await isGood(tokenOf(one))).toBe(NO_KEY)
})

test('a new key is found when the cool-down is over, however many unknown ones were named before', async () => {
  const issuer = await openIssuer([one.jwk])
  const clock = { ms: 0 }
  const { isGood } = openKeys(issuer, clock)
  expect(await isGood(tokenOf({ ...one, kid: 'unknown' }))).toBe(NO_KEY)
  issuer.keys = [one.jwk, two.jwk]
  clock.ms += COOL_DOWN_MS - 1
  expect(await isGood(tokenOf(two))).toBe(NO_KEY)
  expect(issuer.asked).toHaveLength(2)
  clock.ms += 1
  expect(await isGood(tokenOf(two))).toBe(true)
  expect(issuer.asked).toHaveLength(3)
})

test('while the issuer is away the last keys count, for an hour, and it is asked once in a cool-down', async () => {
  const issuer = await openIssuer([one.jwk])
  const clock = { ms: 0 }
  const { isGood, lines } = openKeys(issuer, clock)
  expect(await isGood(tokenOf(one))).toBe(true)
  issuer.answer = (_, response) => response.writeHead(503).end()
  clock.ms = FRESH_MS
  for (let n = 0; n < 10; n++) expect(await isGood(tokenOf(one))).toBe(true)
  expect(issuer.asked).toHaveLength(2)
  clock.ms = STALE_MS - 1
  expect(await isGood(tokenOf(one))).toBe(true)
  clock.ms = STALE_MS + COOL_DOWN_MS
  for (let n = 0; n < 10; n++) expect(await isGood(tokenOf(one))).toBe(UNAVAILABLE)
  expect(issuer.asked.length).toBeLessThanOrEqual(4)
  issuer.answer = undefined
  clock.ms += COOL_DOWN_MS
  expect(await isGood(tokenOf(one))).toBe(true)
  const [fetched, first, ...more] = lines
  expect(fetched).toMatchObject({ level: 'info', url: issuer.url })
  expect(first).toMatchObject({ level: 'warn', code: UNAVAILABLE, reason: expect.stringContaining('503') })
  expect(more.at(-2)).toMatchObject({ level: 'error', code: UNAVAILABLE })
  expect(more.at(-1)).toMatchObject({ level: 'info' })
})

test('an issuer that does not answer is not waited for without end', async () => {
  const issuer = await openIssuer([one.jwk])
  issuer.answer = () => undefined
  const { isGood, lines } = openKeys(issuer, { ms: 0 }, 50)
  expect(await isGood(tokenOf(one))).toBe(UNAVAILABLE)
  expect(lines).toMatchObject([{ level: 'error', reason: expect.stringContaining('50 ms') }])
})

test.each<[string, NonNullable<ServerOptions['jwt']>]>([
  ['http', { jwksUrl: 'http://issuer.example/keys' }],
  ['http to this machine', { jwksUrl: 'http://localhost/keys' }],
  ['http to an address of this machine', { jwksUrl: 'http://127.0.0.1:8080/keys' }],
  ['http to IPv6', { jwksUrl: 'http://[::1]/keys' }],
  ['a file', { jwksUrl: 'file:///etc/keys.json' }],
  ['data', { jwksUrl: 'data:application/json,{"keys":[]}' }],
  ['no URL', { jwksUrl: 'keys.json' }],
  ['credentials', { jwksUrl: 'https://me:secret@issuer.example/keys' }],
  ['a fragment', { jwksUrl: 'https://issuer.example/keys#a' }],
  ['a file of keys besides', { jwksUrl: 'https://issuer.example/keys', jwks: 'keys.json' }],
  ['an algorithm for secrets', { jwksUrl: 'https://issuer.example/keys', algorithms: ['HS256'] }],
  ['an authority without a URL', { jwks: 'keys.json', jwksCa: 'ca.pem' }],
])('%s is refused at the start', async (_, jwt) => {
  await expect(serve({ plugin: guest('echo') }, { jwt })).rejects.toMatchObject({
    code: 'WASM_SERVE_OPTIONS_INVALID',
    message: expect.not.stringContaining('secret@'),
  })
})

test('an authority that is none is refused at the start', async () => {
  const jwksCa = join(folder, 'no.pem')
  writeFileSync(jwksCa, 'hello')
  const jwt = { jwksUrl: 'https://issuer.example/keys', jwksCa }
  await expect(serve({ plugin: guest('echo') }, { jwt })).rejects.toMatchObject({
    code: 'WASM_SERVE_JWT_KEY_INVALID',
  })
})
