import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { parseChallenges } from '../../../src/plugin/oci/authorization.ts'
import { findCredentials } from '../../../src/plugin/oci/credentials.ts'
import { runs } from '../../support/runs.ts'

/** A folder of the test's own. */
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** An environment with one Docker configuration. */
function configured(config: object | string): Record<string, string> {
  const path = folder()
  writeFileSync(join(path, 'config.json'), typeof config === 'string' ? config : JSON.stringify(config))
  return { DOCKER_CONFIG: path }
}

/** An environment with one Docker configuration, and the credential helper `docker-credential-test`. */
function withHelper(script: string, config: object): Record<string, string> {
  const path = folder()
  const program = join(path, 'docker-credential-test')
  writeFileSync(program, `#!/bin/sh\n${script}\n`)
  chmodSync(program, 0o755)
  return { ...configured(config), PATH: `${path}:${process.env.PATH}` }
}

const encode = (text: string) => Buffer.from(text).toString('base64')
const ada = { kind: 'password', username: 'ada', password: 's3cret' }
const login = { auth: encode('ada:s3cret') }

test.each([
  ['ghcr.io', 'ghcr.io'],
  ['GHCR.io', 'ghcr.io'],
  ['https://ghcr.io', 'ghcr.io'],
  ['https://ghcr.io/', 'ghcr.io'],
  ['https://ghcr.io/v1/', 'ghcr.io'],
  ['http://ghcr.io/v2', 'ghcr.io'],
  ['ghcr.io:443', 'ghcr.io:443'],
  ['[::1]:5000', '[::1]:5000'],
  ['https://index.docker.io/v1/', 'docker.io'],
  ['docker.io', 'docker.io'],
  ['registry-1.docker.io', 'index.docker.io'],
])('the key %s is that of %s', async (key, registry) => {
  expect(await findCredentials(registry, configured({ auths: { [key]: login } }))).toEqual(ada)
})

test.each([
  ['ghcr.io', 'evil-ghcr.io'],
  ['ghcr.io', 'ghcr.io.evil.example'],
  ['ghcr.io', 'ghcr.io:8443'],
  ['ghcr.io:8443', 'ghcr.io'],
  ['sub.ghcr.io', 'ghcr.io'],
  ['https://evil.example/ghcr.io', 'ghcr.io'],
  ['https://user@ghcr.io', 'ghcr.io'],
  ['quay.io/team', 'quay.io'],
  ['', 'ghcr.io'],
  ['__proto__', 'ghcr.io'],
  ['ghcr.io', '__proto__'],
  ['ghcr.io', 'constructor'],
])('the key %s is not that of %s', async (key, registry) => {
  expect(await findCredentials(registry, configured({ auths: { [key]: login } }))).toBeUndefined()
})

test.each([
  [login, ada],
  [{ auth: encode('ada:a:b\0\0') }, { kind: 'password', username: 'ada', password: 'a:b' }],
  [{ username: 'ada', password: 's3cret' }, ada],
  [
    { ...login, identitytoken: 'refresh' },
    { kind: 'identity', token: 'refresh' },
  ],
  [{ registrytoken: 'token' }, { kind: 'bearer', token: 'token' }],
  [{}, undefined],
  [{ auth: '', email: 'ada@example.com' }, undefined],
])('an entry %o has the credentials %o', async (entry, credentials) => {
  expect(await findCredentials('ghcr.io', configured({ auths: { 'ghcr.io': entry } }))).toEqual(credentials)
})

test('the first file decides that has the registry', async () => {
  const path = folder()
  const authFile = join(path, 'auth.json')
  writeFileSync(authFile, JSON.stringify({ auths: { 'a.example': { auth: encode('first:1') } } }))
  mkdirSync(join(path, '.docker'))
  const entries = { 'a.example': { auth: encode('second:2') }, 'b.example': { auth: encode('second:2') } }
  writeFileSync(join(path, '.docker', 'config.json'), JSON.stringify({ auths: entries }))
  const environment = { HOME: path, REGISTRY_AUTH_FILE: authFile }
  expect(await findCredentials('a.example', environment)).toMatchObject({ username: 'first' })
  expect(await findCredentials('b.example', environment)).toMatchObject({ username: 'second' })
  expect(await findCredentials('c.example', environment)).toBeUndefined()
  expect(await findCredentials('a.example', { HOME: path })).toMatchObject({ username: 'second' })
  expect(await findCredentials('a.example', { HOME: path, DOCKER_CONFIG: '/nowhere' })).toBeUndefined()
})

test.each([
  ['no JSON', '{"auths":{"ghcr.io":{"auth":s3cret'],
  ['an array', '[]'],
  ['an entry that is none', { auths: { 'ghcr.io': 's3cret' } }],
  ['an auth without a colon', { auths: { 'ghcr.io': { auth: encode('s3cret') } } }],
  ['a token that is no header', { auths: { 'ghcr.io': { registrytoken: 's3cret\n' } } }],
  ['a helper that is no name', { credHelpers: { 'ghcr.io': { s3cret: 1 } } }],
  ['a helper that is a path', { credHelpers: { 'ghcr.io': '../s3cret' } }],
  ['a helper with a command', { credsStore: 's3cret;reboot' }],
  ['a helper that is missing', { credsStore: 'not-installed' }],
])('a configuration with %s is an error that shows no secret', async (_, config) => {
  const found = findCredentials('ghcr.io', { ...configured(config), PATH: '/nowhere' })
  const error = await found.catch((error: Error) => error)
  expect(error).toMatchObject({ code: 'WASM_SERVE_CREDENTIALS_INVALID' })
  expect(String(error)).not.toContain('s3cret')
})

test('a configuration that cannot be read is an error', async () => {
  const path = folder()
  mkdirSync(join(path, 'config.json'))
  const code = 'WASM_SERVE_CREDENTIALS_INVALID'
  await expect(findCredentials('ghcr.io', { DOCKER_CONFIG: path })).rejects.toMatchObject({ code })
})

const ANSWER = 'read server; echo "{\\"Username\\":\\"$1 $server\\",\\"Secret\\":\\"s3cret\\"}"'

test.each([
  ['credHelpers', { credHelpers: { 'ghcr.io': 'test' }, credsStore: 'not-installed' }],
  ['credHelpers before auths', { credHelpers: { 'ghcr.io': 'test' }, auths: { 'ghcr.io': login } }],
  ['credsStore', { credsStore: 'test', auths: { 'ghcr.io': {} } }],
])('a helper of %s receives the registry on its input', async (_, config) => {
  const credentials = { kind: 'password', username: 'get ghcr.io', password: 's3cret' }
  expect(await findCredentials('ghcr.io', withHelper(ANSWER, config))).toEqual(credentials)
})

test('Docker Hub has its old name for helpers', async () => {
  const found = await findCredentials('docker.io', withHelper(ANSWER, { credsStore: 'test' }))
  expect(found).toMatchObject({ username: 'get https://index.docker.io/v1/' })
})

test('the secret of the user <token> is an identity token', async () => {
  const script = 'echo \'{"ServerURL":"x","Username":"<token>","Secret":"refresh"}\''
  const found = await findCredentials('ghcr.io', withHelper(script, { credsStore: 'test' }))
  expect(found).toEqual({ kind: 'identity', token: 'refresh' })
})

test('a helper that does not know the registry is no error', async () => {
  const script = 'echo "credentials not found in native keychain"; exit 1'
  expect(await findCredentials('ghcr.io', withHelper(script, { credsStore: 'test' }))).toBeUndefined()
})

test.each([
  ['fails', 'echo s3cret; echo s3cret >&2; exit 3'],
  ['ends by a signal', 'kill -9 $$'],
  ['answers no JSON', 'echo s3cret'],
  ['answers no secret', 'echo \'{"Username":"s3cret"}\''],
  [
    'answers without an end',
    'while :; do echo s3cretxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done',
  ],
])('a helper that %s is an error that shows no secret', async (_, script) => {
  const found = findCredentials('ghcr.io', withHelper(script, { credsStore: 'test' }))
  const error = await found.catch((error: Error) => error)
  expect(error).toMatchObject({ code: 'WASM_SERVE_CREDENTIALS_INVALID' })
  expect(String(error)).not.toContain('s3cret')
})

const parsed = (header: string) =>
  parseChallenges(header).map(({ scheme, parameters }) => [scheme, Object.fromEntries(parameters)])

test.each([
  ['', []],
  ['Basic', [['basic', {}]]],
  ['Basic realm="a b, c"', [['basic', { realm: 'a b, c' }]]],
  [
    'Bearer realm="https://a/t",service=s,Scope="repository:a:pull,push"',
    [['bearer', { realm: 'https://a/t', service: 's', scope: 'repository:a:pull,push' }]],
  ],
  [
    'BASIC realm="x\\"y", , Bearer a = "1" , b="2",Negotiate abc==',
    [
      ['basic', { realm: 'x"y' }],
      ['bearer', { a: '1', b: '2' }],
      ['negotiate', { abc: '=' }],
    ],
  ],
  ['realm="no scheme"', []],
  ['Basic realm="unclosed', [['basic', { realm: '' }]]],
])('the challenge %s is parsed', (header, challenges) => {
  expect(parsed(header)).toEqual(challenges)
})

test('any text is parsed to challenges', () => {
  const parts = fc.constantFrom('Bearer ', 'realm', '=', '"', '\\', ',', ' ', 'x')
  const text = fc.oneof(
    fc.string(),
    fc.array(parts).map((all) => all.join('')),
  )
  fc.assert(
    fc.property(text, (text) => {
      for (const { scheme } of parseChallenges(text)) expect(scheme).toMatch(/^\S+$/)
    }),
    { numRuns: runs(300) },
  )
})
