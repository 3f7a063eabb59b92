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

/** The credentials for a repository of a registry. */
async function find(registry: string, environment: Record<string, string>, repository = 'acme/hello') {
  return (await findCredentials({ registry, repository }, environment)).found
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
  expect(await find(registry, configured({ auths: { [key]: login } }))).toEqual(ada)
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
  ['quay.io/acm', 'quay.io'],
  ['quay.io/acme/hello/more', 'quay.io'],
  ['*.io', 'a.ghcr.io'],
  ['*', 'ghcr.io'],
  ['*.io', 'ghcr.io:8443'],
  ['*.io:*', 'ghcr.io:8443'],
  ['ghcr.*:8443', 'ghcr.io'],
  ['', 'ghcr.io'],
  ['__proto__', 'ghcr.io'],
  ['ghcr.io', '__proto__'],
  ['ghcr.io', 'constructor'],
])('the key %s is not that of %s', async (key, registry) => {
  expect(await find(registry, configured({ auths: { [key]: login } }))).toBeUndefined()
})

test.each([
  [login, ada],
  [{ auth: encode('ada:a:b\0\0') }, { kind: 'password', username: 'ada', password: 'a:b' }],
  [{ username: 'ada', password: 's3cret' }, ada],
  [
    { ...login, identitytoken: 'refresh' },
    { kind: 'identity', token: 'refresh', login: { username: 'ada', password: 's3cret' } },
  ],
  [
    { auth: encode('ada:'), identitytoken: 'refresh' },
    { kind: 'identity', token: 'refresh', login: { username: 'ada', password: 'refresh' } },
  ],
  [{ identitytoken: 'refresh' }, { kind: 'identity', token: 'refresh' }],
  [{ auth: encode(':') }, undefined],
  [{ registrytoken: 'token' }, { kind: 'bearer', token: 'token' }],
  [{}, undefined],
  [{ auth: '', email: 'ada@example.com' }, undefined],
])('an entry %o has the credentials %o', async (entry, credentials) => {
  expect(await find('ghcr.io', configured({ auths: { 'ghcr.io': entry } }))).toEqual(credentials)
})

test.each([
  ['quay.io/acme', 'quay.io'],
  ['https://quay.io/acme/', 'quay.io'],
  ['quay.io/acme/hello', 'quay.io'],
  ['*.dkr.ecr.*.amazonaws.com', '123456789012.dkr.ecr.eu-west-1.amazonaws.com'],
  ['registry-*.example:8443/acme', 'registry-1.example:8443'],
  ['index.docker.io/acme', 'docker.io'],
])('the key %s is that of the repository acme/hello at %s', async (key, registry) => {
  expect(await find(registry, configured({ auths: { [key]: login } }))).toEqual(ada)
})

test('the key with the longest path counts, then one without a pattern', async () => {
  const entry = (user: string) => ({ auth: encode(`${user}:x`) })
  const auths = {
    'quay.io': entry('host'),
    '*.io/acme': entry('pattern'),
    'quay.io/acme': entry('team'),
    'quay.io/acme/hello': {},
    '*.io': entry('any'),
  }
  const environment = configured({ auths })
  expect(await find('quay.io', environment, 'acme/hello')).toMatchObject({ username: 'team' })
  expect(await find('quay.io', environment, 'other')).toMatchObject({ username: 'host' })
  expect(await find('ghcr.io', environment, 'acme/hello')).toMatchObject({ username: 'pattern' })
  expect(await find('ghcr.io', environment, 'other')).toMatchObject({ username: 'any' })
})

test('a file may have the former format of Docker, which a Secret of type dockercfg has', async () => {
  const environment = configured({ 'https://ghcr.io/v1/': { ...login, email: 'ada@example.com' } })
  expect(await find('ghcr.io', environment)).toEqual(ada)
  expect(await find('quay.io', configured({ HttpHeaders: { a: 'b' }, 'quay.io': login }))).toEqual(ada)
  expect(await find('quay.io', configured({ credsStore: '', 'quay.io': login }))).toBeUndefined()
})

test('it is noted where credentials come from, and which others there are', async () => {
  const note = async (environment: Record<string, string>) =>
    (await findCredentials({ registry: 'ghcr.io', repository: 'acme/hello' }, environment)).note
  const environment = configured({ auths: { 'ghcr.io/acme': login } })
  const file = join(environment.DOCKER_CONFIG ?? '', 'config.json')
  expect(await note(environment)).toBe(`the credentials of ${file} for ghcr.io/acme were sent`)
  expect(await note(withHelper(ANSWER, { credsStore: 'test' }))).toBe(
    'the credentials of docker-credential-test were sent',
  )
  const others = { auths: { 'a.example': login, 'b.example': {} }, credHelpers: { 'c.example': 'x' } }
  expect(await note(configured(others))).toContain(
    'config.json has credentials for a.example, c.example; none for ghcr.io/acme/hello (',
  )
  expect(await note(configured({}))).toContain('config.json has none for ghcr.io/acme/hello (')
  expect(await note({ DOCKER_CONFIG: '/nowhere' })).toContain('there is no /nowhere/config.json (')
})

test('the first file decides that has the registry', async () => {
  const path = folder()
  const authFile = join(path, 'auth.json')
  writeFileSync(authFile, JSON.stringify({ auths: { 'a.example': { auth: encode('first:1') } } }))
  mkdirSync(join(path, '.docker'))
  const entries = { 'a.example': { auth: encode('second:2') }, 'b.example': { auth: encode('second:2') } }
  writeFileSync(join(path, '.docker', 'config.json'), JSON.stringify({ auths: entries }))
  const environment = { HOME: path, REGISTRY_AUTH_FILE: authFile }
  expect(await find('a.example', environment)).toMatchObject({ username: 'first' })
  expect(await find('b.example', environment)).toMatchObject({ username: 'second' })
  expect(await find('c.example', environment)).toBeUndefined()
  expect(await find('a.example', { HOME: path })).toMatchObject({ username: 'second' })
  expect(await find('a.example', { HOME: path, DOCKER_CONFIG: '/nowhere' })).toBeUndefined()
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
  const found = find('ghcr.io', { ...configured(config), PATH: '/nowhere' })
  const error = await found.catch((error: Error) => error)
  expect(error).toMatchObject({ code: 'WASM_SERVE_CREDENTIALS_INVALID' })
  expect(String(error)).not.toContain('s3cret')
})

test('a configuration that cannot be read is an error', async () => {
  const path = folder()
  mkdirSync(join(path, 'config.json'))
  const code = 'WASM_SERVE_CREDENTIALS_INVALID'
  await expect(find('ghcr.io', { DOCKER_CONFIG: path })).rejects.toMatchObject({ code })
})

const ANSWER = 'read server; echo "{\\"Username\\":\\"$1 $server\\",\\"Secret\\":\\"s3cret\\"}"'

test.each([
  ['credHelpers', { credHelpers: { 'ghcr.io': 'test' }, credsStore: 'not-installed' }],
  ['credHelpers before auths', { credHelpers: { 'ghcr.io': 'test' }, auths: { 'ghcr.io': login } }],
  ['credsStore', { credsStore: 'test', auths: { 'ghcr.io': {} } }],
])('a helper of %s receives the registry on its input', async (_, config) => {
  const credentials = { kind: 'password', username: 'get ghcr.io', password: 's3cret' }
  expect(await find('ghcr.io', withHelper(ANSWER, config))).toEqual(credentials)
})

test('Docker Hub has its old name for helpers', async () => {
  const found = await find('docker.io', withHelper(ANSWER, { credsStore: 'test' }))
  expect(found).toMatchObject({ username: 'get https://index.docker.io/v1/' })
})

test('the secret of the user <token> is an identity token', async () => {
  const script = 'echo \'{"ServerURL":"x","Username":"<token>","Secret":"refresh"}\''
  const found = await find('ghcr.io', withHelper(script, { credsStore: 'test' }))
  expect(found).toEqual({ kind: 'identity', token: 'refresh' })
})

test('a helper that does not know the registry is no error', async () => {
  const script = 'echo "credentials not found in native keychain"; exit 1'
  expect(await find('ghcr.io', withHelper(script, { credsStore: 'test' }))).toBeUndefined()
})

test('the first value of a helper counts, and what follows is not read', async () => {
  const script = `${ANSWER}; echo 'a new version is available {'; echo '{"Username":"x","Secret":"y"}'`
  const found = await find('ghcr.io', withHelper(script, { credsStore: 'test' }))
  expect(found).toEqual({ kind: 'password', username: 'get ghcr.io', password: 's3cret' })
})

test('a helper that answers with empty values has no credentials', async () => {
  const script = 'echo \'{"ServerURL":"","Username":"","Secret":""}\''
  expect(await find('ghcr.io', withHelper(script, { credsStore: 'test' }))).toBeUndefined()
})

test.each([
  [
    'on its error output',
    'echo; echo "no session" >&2; echo more >&2; exit 1',
    /\(exit code 1\): no session$/,
  ],
  ['on its output', 'echo "no session"; echo more; exit 1', /\(exit code 1\): no session$/],
  ['with control characters', 'printf "a\\033[2Jb" >&2; exit 1', /: a\\u001b\[2Jb$/],
  ['at length', 'printf "%05000d" 0 >&2; exit 1', /: 0{300}$/],
  ['besides an output that is none', 'echo s3cret; echo "no session" >&2', /credentials: no session$/],
])('the reason of a helper that fails is shown, if it says it %s', async (_, script, message) => {
  const found = find('ghcr.io', withHelper(script, { credsStore: 'test' }))
  const code = 'WASM_SERVE_CREDENTIALS_INVALID'
  await expect(found).rejects.toMatchObject({ code, message: expect.stringMatching(message) })
})

test.each([
  ['fails', 'echo s3cret; echo reason >&2; exit 3'],
  ['fails with JSON', 'echo \'{"Secret":"s3cret"}\'; exit 3'],
  ['ends by a signal', 'kill -9 $$'],
  ['answers no JSON', 'echo s3cret'],
  ['answers no secret', 'echo \'{"Username":"s3cret"}\''],
  [
    'answers without an end',
    'while :; do echo s3cretxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done',
  ],
])('a helper that %s is an error that shows no secret', async (_, script) => {
  const found = find('ghcr.io', withHelper(script, { credsStore: 'test' }))
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
  ['Basic realm=/', [['basic', { realm: '/' }]]],
  [
    'Bearer realm="https://a/t?x=1,2&y",service="s",error="insufficient_scope"',
    [['bearer', { realm: 'https://a/t?x=1,2&y', service: 's', error: 'insufficient_scope' }]],
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
