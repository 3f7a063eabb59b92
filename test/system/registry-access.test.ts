import { createPrivateKey, type KeyObject, randomUUID, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { selfSigned } from '../support/certificate.ts'
import { run } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { tokenOf } from '../support/issuer.ts'
import { buildProgram } from '../support/registry-programs.ts'
import { openRegistryServer, startDockerRegistry } from '../support/registry-server.ts'
import { describeWith } from '../support/tools.ts'

/* Registries that ask for a password or a token. */

function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-access-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

const PASSWORD = 'sesame-123'

/** A registry that lets only the user `acme` with the password push and pull. */
async function expectPasswordNeeded(host: string): Promise<void> {
  const folder = temporaryFolder()
  const logIn = (password: string) => {
    const auth = Buffer.from(`acme:${password}`).toString('base64')
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ auths: { [host]: { auth } } }))
  }
  const env = { DOCKER_CONFIG: folder }
  const reference = `oci://${host}/acme/upper:1`
  const push = () => run(['push', guest('upper'), reference], env)
  const call = () => run(['call', reference, '-i', 'abc', '--cache-folder', temporaryFolder()], env)
  logIn(PASSWORD)
  expect(await push()).toMatchObject({ code: 0, stderr: '' })
  expect(await call()).toMatchObject({ code: 0, stdout: 'ABC', stderr: '' })
  for (const prepare of [() => logIn('wrong-0456'), () => rmSync(join(folder, 'config.json'))]) {
    prepare()
    for (const refused of [await call(), await push()]) {
      expect([refused.code, refused.stdout]).toEqual([1, ''])
      expect(refused.stderr).toMatch(/^[^\n]*WASM_SERVE_REGISTRY_REFUSED[^\n]*\n$/)
      expect(refused.stderr).not.toMatch(/wrong|sesame|YWNtZ/)
    }
  }
}

/** The user `acme` with the password `sesame-123`. */
const HTPASSWD = 'acme:$2b$05$lYT8kt2SOMUfBTTOq/n6J.ikCy5GqhylBIaBQSkZbA1zvVlobxutG\n'

describeWith(['docker-registry'], () => {
  test('a password comes from the Docker configuration, and is in no message', async () => {
    const { host } = await startDockerRegistry(HTPASSWD)
    await expectPasswordNeeded(host)
  })
})

describeWith(['docker-registry', 'go'], () => {
  beforeAll(() => buildProgram('distribution'), 600_000)

  test.each([
    'docker-registry',
    'distribution',
  ] as const)('%s takes the tokens of a token server, which asks for the password', async (name) => {
    const folder = temporaryFolder()
    const { cert, key } = selfSigned('token-server')
    writeFileSync(join(folder, 'cert.pem'), cert)
    const tokens = await openTokenServer(cert, createPrivateKey(key))
    const rootcertbundle = join(folder, 'cert.pem')
    const server = await openRegistryServer(name, {
      token: { ...NAMES, realm: tokens.realm, rootcertbundle },
    })
    onTestFinished(server.stop)
    await expectPasswordNeeded(server.host)
    expect(new Set(tokens.scopes)).toEqual(
      new Set(['repository:acme/upper:pull', 'repository:acme/upper:pull,push']),
    )
  })
})

/** The names that a registry expects in a token. */
const NAMES = { service: 'test-registry', issuer: 'test-issuer' }

/** A token server as in Docker's specification: its tokens carry its certificate, and permit what was asked for. */
async function openTokenServer(cert: string, key: KeyObject) {
  const scopes: string[] = []
  const x5c = [new X509Certificate(cert).raw.toString('base64')]
  const basic = `Basic ${Buffer.from(`acme:${PASSWORD}`).toString('base64')}`
  const server = createServer(({ url = '', headers }, response) => {
    const scope = new URL(url, 'http://localhost').searchParams.get('scope') ?? ''
    if (headers.authorization !== basic) return void response.writeHead(401).end()
    const [type, name, list = ''] = scope.split(':')
    const actions = list.split(',').sort() // the registries name them in any order
    scopes.push(`${type}:${name}:${actions}`)
    const now = Math.floor(Date.now() / 1_000)
    const claims = {
      ...{ iss: NAMES.issuer, aud: NAMES.service, sub: 'acme', jti: randomUUID(), nbf: now - 60, iat: now },
      access: [{ type, name, actions }],
    }
    response.end(
      JSON.stringify({ token: tokenOf({ alg: 'ES256', kid: undefined, key, jwk: {} }, claims, { x5c }) }),
    )
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { scopes, realm: `http://127.0.0.1:${port}/token` }
}
