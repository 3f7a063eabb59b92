import { createHmac, createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { ServerOptions } from '../../src/options/options.ts'
import { selfSigned } from '../support/certificate.ts'
import { run } from '../support/cli.ts'
import { guest } from '../support/guest.ts'
import { signingKey, tokenOf as tokenBy } from '../support/issuer.ts'
import { listen, serve } from '../support/serve.ts'

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-jwt-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = (name: string, content: string | object) => {
  writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content))
  return join(folder, name)
}

const SECRET = 'a secret of thirty-two characters'
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const short = generateKeyPairSync('rsa', { modulusLength: 1024 })
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const ed = generateKeyPairSync('ed25519')
const pem = (key: KeyObject) => String(key.export({ type: 'spki', format: 'pem' }))
const rsaPem = file('rsa.pem', pem(rsa.publicKey))
const jwk = (key: KeyObject, kid: string) => ({ ...key.export({ format: 'jwk' }), kid })
const jwks = file('jwks.json', {
  keys: [jwk(rsa.publicKey, 'one'), jwk(ec.publicKey, 'two'), jwk(ed.publicKey, 'three')],
})

const inFuture = Math.floor(Date.now() / 1000) + 3_600

/** A token, whatever one wants to have in it; it expires in an hour. */
function token(alg: string, key: string | KeyObject, claims: object = {}, header: object = {}): string {
  return tokenOf(alg, key, JSON.stringify({ sub: 'Bob', exp: inFuture, ...claims }), header)
}

/** @param claims - As text, which may say what no value can. */
function tokenOf(alg: string, key: string | KeyObject, claims: string, header: object = {}): string {
  const part = (json: string) => Buffer.from(json).toString('base64url')
  const text = `${part(JSON.stringify({ alg, typ: 'JWT', ...header }))}.${part(claims)}`
  return `${text}.${signed(alg, key, text)}`
}

function signed(alg: string, key: string | KeyObject, text: string): string {
  if (alg === 'none') return ''
  if (alg.startsWith('HS')) return createHmac('sha256', key).update(text).digest('base64url')
  const privateKey = typeof key === 'string' ? createPrivateKey(key) : key
  const options = alg.startsWith('ES') ? { key: privateKey, dsaEncoding: 'ieee-p1363' as const } : privateKey
  return sign(alg === 'EdDSA' ? null : 'sha256', Buffer.from(text), options).toString('base64url')
}

async function ask(jwt: NonNullable<ServerOptions['jwt']>, bearer: string | undefined, url = '/') {
  const app = await serve({ plugin: guest('echo') }, { jwt })
  const headers = bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }
  return app.inject({ method: 'POST', url, body: 'hi', headers })
}

test.each([
  ['a secret', { secret: SECRET }, token('HS256', SECRET)],
  ['a public key', { publicKey: rsaPem }, token('RS256', rsa.privateKey)],
  ['a certificate', { publicKey: file('cert.pem', selfSigned('a').cert) }, undefined],
  ['a key of a set, by its id', { jwks }, token('ES256', ec.privateKey, {}, { kid: 'two' })],
  ['another key of the set', { jwks }, token('EdDSA', ed.privateKey, {}, { kid: 'three' })],
  [
    'the only key of a set',
    { jwks: file('one.json', { keys: [jwk(ec.publicKey, 'two')] }) },
    token('ES256', ec.privateKey),
  ],
])('a token is verified with %s', async (_, jwt, bearer) => {
  if (bearer !== undefined) expect((await ask(jwt, bearer)).body).toBe('hi')
  const refused = await ask(jwt, undefined)
  expect(refused.json()).toMatchObject({ status: 401, code: 'WASM_SERVE_TOKEN_REFUSED' })
  expect(refused.headers).toMatchObject({
    'www-authenticate': 'Bearer',
    'content-type': 'application/problem+json',
  })
})

const VARIABLE = `\${S}`
const inPast = Math.floor(Date.now() / 1000) - 60
test.each<[string, NonNullable<ServerOptions['jwt']>, string]>([
  ['of another secret', { secret: SECRET }, token('HS256', `${SECRET}!`)],
  ['that is not signed', { secret: SECRET }, token('none', '')],
  ['that is not signed, to a public key', { publicKey: rsaPem }, token('none', '')],
  ['that has expired', { secret: SECRET }, token('HS256', SECRET, { exp: inPast })],
  ['that is for later', { secret: SECRET }, token('HS256', SECRET, { nbf: inPast + 3_600 })],
  [
    'signed with the public key as if that were a secret',
    { publicKey: rsaPem },
    token('HS256', pem(rsa.publicKey)),
  ],
  [
    'of an algorithm that is not allowed',
    { publicKey: rsaPem, algorithms: ['PS256'] },
    token('RS256', rsa.privateKey),
  ],
  ['for another audience', { secret: SECRET, audience: ['us'] }, token('HS256', SECRET, { aud: 'them' })],
  ['for nobody', { secret: SECRET, audience: ['us'] }, token('HS256', SECRET)],
  ['of nobody', { secret: SECRET, issuer: ['us'] }, token('HS256', SECRET)],
  ['of another issuer', { secret: SECRET, issuer: ['us'] }, token('HS256', SECRET, { iss: 'them' })],
  ['of a key that is not in the set', { jwks }, token('ES256', ec.privateKey, {}, { kid: 'four' })],
  ['of another key of the set', { jwks }, token('ES256', ec.privateKey, {}, { kid: 'one' })],
  ['that names no key of several', { jwks }, token('ES256', ec.privateKey)],
  ['that never expires', { secret: SECRET }, tokenOf('HS256', SECRET, '{"sub":"Bob"}')],
  [
    'that never expires, to a public key',
    { publicKey: rsaPem },
    tokenOf('RS256', rsa.privateKey, '{"sub":"Bob","iat":1}'),
  ],
  [
    'that never expires, where it need not',
    { secret: SECRET, allowNoExpiry: false },
    tokenOf('HS256', SECRET, '{}'),
  ],
  ...[
    ...['null', '"9999999999"', 'true', '{}', '[9999999999]', '1e999', '-1e999', '1e300', '0', '-1', '""'],
    `${inFuture},"exp":null`,
  ].map((exp): [string, { secret: string }, string] => [
    `that expires at ${exp}`,
    { secret: SECRET },
    tokenOf('HS256', SECRET, `{"sub":"Bob","exp":${exp}}`),
  ]),
  [
    'whose prototype expires',
    { secret: SECRET },
    tokenOf('HS256', SECRET, `{"__proto__":{"exp":${inFuture}}}`),
  ],
  ['with another name for it', { secret: SECRET }, tokenOf('HS256', SECRET, `{"EXP":${inFuture}}`)],
  ['that is none', { secret: SECRET }, 'hello'],
  ['with more behind it', { secret: SECRET }, `${token('HS256', SECRET)} x`],
  ['that is empty', { secret: SECRET }, ' '],
])('a token %s is told 401', async (_, jwt, bearer) => {
  const refused = await ask(jwt, bearer)
  expect(refused.json()).toMatchObject({ status: 401, code: 'WASM_SERVE_TOKEN_REFUSED' })
  expect(refused.body).not.toContain(SECRET)
})

const keySet = (...keys: readonly { readonly jwk: object }[]) =>
  file(`set-${sets++}.json`, { keys: keys.map((key) => key.jwk) })
let sets = 0

test.each([
  ['without ids', undefined],
  ['of one id', 'same'],
])('of several keys %s each verifies its tokens', async (_, kid) => {
  const [first, second, third] = [signingKey(kid), signingKey(kid), signingKey(kid, 'RS256')]
  const set = { jwks: keySet(first, second, third) }
  for (const key of [first, second, third]) expect((await ask(set, tokenBy(key))).statusCode).toBe(200)
  expect((await ask(set, tokenBy(signingKey(kid)))).statusCode).toBe(401)
  expect((await ask(set, tokenBy(first, { exp: inPast }))).json().detail).toMatch(/expired/)
})

test('a key with an alg verifies tokens of this algorithm only', async () => {
  const key = signingKey('a', 'RS256', { alg: 'RS256' })
  const set = { jwks: keySet(key) }
  expect((await ask(set, tokenBy(key))).statusCode).toBe(200)
  for (const alg of ['RS384', 'PS256'])
    expect((await ask(set, token(alg, key.key, {}, { kid: 'a' }))).statusCode).toBe(401)
  await expect(ask({ ...set, algorithms: ['PS256'] }, undefined)).rejects.toMatchObject({
    code: 'WASM_SERVE_JWT_KEY_INVALID',
  })
})

test.each([
  ['use enc', { use: 'enc' }],
  ['an unknown use', { use: 'SIG' }],
  ['operations for encryption', { key_ops: ['encrypt', 'wrapKey'] }],
  ['no operations', { key_ops: [] }],
  ['operations that are no list', { key_ops: 'verify' }],
  ['an alg for encryption', { alg: 'ECDH-ES' }],
  ['an alg of other keys', { alg: 'RS256' }],
  ['no alg at all', { alg: null }],
])('a key with %s verifies nothing', async (_, members) => {
  const [good, bad] = [
    signingKey('good', 'ES256', { use: 'sig', key_ops: ['verify'] }),
    signingKey('bad', 'ES256', members),
  ]
  const set = { jwks: keySet(bad, good) }
  expect((await ask(set, tokenBy(bad))).statusCode).toBe(401)
  expect((await ask(set, tokenBy(good))).statusCode).toBe(200)
  await expect(ask({ jwks: keySet(bad) }, undefined)).rejects.toMatchObject({
    code: 'WASM_SERVE_JWT_KEY_INVALID',
  })
})

test('a token with a critical extension that nobody knows is refused', async () => {
  const bearer = token('HS256', SECRET, {}, { crit: ['new'], new: true })
  expect((await ask({ secret: SECRET }, bearer)).statusCode).toBe(401)
})

test.each([
  ['Basic abc', 'Bearer'],
  ['bearer TOKEN', undefined],
  ['BEARER TOKEN', undefined],
  ['Bearer  TOKEN', 'Bearer error="invalid_token"'],
  ['Bearer TOKEN,', 'Bearer error="invalid_token"'],
  ['TOKEN', 'Bearer'],
])('the header "Authorization: %s" is challenged with %s', async (header, challenge) => {
  const app = await serve({ plugin: guest('echo') }, { jwt: { secret: SECRET } })
  const headers = { authorization: header.replace('TOKEN', token('HS256', SECRET)) }
  const { statusCode, headers: answered } = await app.inject({ method: 'POST', url: '/', headers })
  expect([statusCode, answered['www-authenticate']]).toEqual([challenge ? 401 : 200, challenge])
})

test('a token that has expired is told so, and audience and issuer may be right', async () => {
  const expired = await ask({ secret: SECRET }, token('HS256', SECRET, { exp: inPast }))
  expect(expired.json().detail).toMatch(/expired/)
  const jwt = { secret: SECRET, audience: ['us', 'them'], issuer: ['me'] }
  const good = token('HS256', SECRET, { aud: ['them'], iss: 'me' })
  expect((await ask(jwt, good)).statusCode).toBe(200)
  expect((await ask({ secret: SECRET, audience: 'them', issuer: 'me' }, good)).statusCode).toBe(200)
  expect((await ask({ secret: SECRET, audience: 'us' }, good)).statusCode).toBe(401)
})

test('a token that never expires is good where allowNoExpiry says so, and one that has expired is not', async () => {
  const jwt = { secret: SECRET, allowNoExpiry: true }
  expect((await ask(jwt, tokenOf('HS256', SECRET, '{"sub":"Bob"}'))).statusCode).toBe(200)
  expect((await ask(jwt, token('HS256', SECRET))).statusCode).toBe(200)
  expect((await ask(jwt, token('HS256', SECRET, { exp: inPast }))).statusCode).toBe(401)
  expect((await ask(jwt, token('HS256', SECRET, { exp: 'never' }))).statusCode).toBe(401)
})

test('a client is told that its token needs an expiry', async () => {
  const { detail } = (await ask({ secret: SECRET }, tokenOf('HS256', SECRET, '{}'))).json()
  expect(detail).toContain('exp')
})

test('who has no token is refused before the body is read, at any URL; and a key may be asked for besides', async () => {
  const apiKeys = ['first-key-0123456789']
  const { url } = await listen({ plugin: guest('echo') }, { jwt: { secret: SECRET }, apiKeys })
  const authorization = `Bearer ${token('HS256', SECRET)}`
  const status = async (headers: Record<string, string>, path = '/') =>
    (await fetch(url + path, { method: 'POST', body: 'hi', headers })).status
  expect(await status({ authorization, 'x-api-key': 'first-key-0123456789' })).toBe(200)
  expect(await status({ authorization })).toBe(401)
  expect(await status({ 'x-api-key': 'first-key-0123456789' }, '/nowhere')).toBe(401)
})

test.each([
  ['no key', {}, 'WASM_SERVE_OPTIONS_INVALID'],
  ['two keys', { secret: SECRET, jwks }, 'WASM_SERVE_OPTIONS_INVALID'],
  ['a short secret', { secret: 'too short' }, 'WASM_SERVE_OPTIONS_INVALID'],
  [
    'a public key as a secret',
    { publicKey: rsaPem, algorithms: ['HS256' as const] },
    'WASM_SERVE_OPTIONS_INVALID',
  ],
  [
    'an algorithm of other keys',
    { publicKey: rsaPem, algorithms: ['ES256' as const] },
    'WASM_SERVE_JWT_KEY_INVALID',
  ],
  ['a file that is not there', { publicKey: join(folder, 'none.pem') }, 'WASM_SERVE_JWT_KEY_INVALID'],
  ['a file that is no key', { publicKey: file('no.pem', 'hello') }, 'WASM_SERVE_JWT_KEY_INVALID'],
  ['a set that is none', { jwks: file('no.json', '{}') }, 'WASM_SERVE_JWT_KEY_INVALID'],
  ['a set that is no JSON', { jwks: file('text.json', 'hello') }, 'WASM_SERVE_JWT_KEY_INVALID'],
  [
    'a key of too few bits',
    { publicKey: file('short.pem', pem(short.publicKey)) },
    'WASM_SERVE_JWT_KEY_INVALID',
  ],
  [
    'a set of secrets',
    { jwks: file('oct.json', { keys: [{ kty: 'oct', k: 'AAAA' }] }) },
    'WASM_SERVE_JWT_KEY_INVALID',
  ],
])('%s is refused at the start', async (_, jwt, code) => {
  await expect(ask(jwt, undefined)).rejects.toMatchObject({ code })
})

test('the secret is shown nowhere', async () => {
  const config = (secret: string) =>
    file('c.json', { jwt: { secret }, plugins: { a: { source: guest('echo') } } })
  const printed = await run(['-c', config(SECRET), '--print-config'])
  expect(JSON.parse(printed.stdout).options.jwt.secret).toBe('(secret)')
  const variable = await run(['-c', config(VARIABLE), '--print-config'], { S: SECRET })
  expect(JSON.parse(variable.stdout).options.jwt.secret).toBe(VARIABLE)
  const short = await run(['check', '-c', config('only-20-characters-..')])
  expect(short.code).toBe(2)
  expect(short.stderr).toContain('32 characters')
  expect(short.stderr).not.toContain('only-20')
})
