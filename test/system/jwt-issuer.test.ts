import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { openIssuer, signingKey, tokenOf } from '../support/issuer.ts'

/* The command and an issuer of tokens: its authority is that of the process, and a reload keeps its keys. */

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-issuer-'))
afterAll(() => rmSync(folder, { recursive: true }))

const statusOf = async (url: string, token: string) => {
  const headers = { authorization: `Bearer ${token}` }
  return (await fetch(url, { method: 'POST', body: 'hi', headers })).status
}

test('the command trusts NODE_EXTRA_CA_CERTS, sees a rotation, and keeps the keys when it is reloaded', async () => {
  const [one, two] = [signingKey('one'), signingKey('two')]
  const issuer = await openIssuer([one.jwk])
  const ca = join(folder, 'ca.pem')
  const config = join(folder, 'c.yaml')
  writeFileSync(ca, issuer.certificate.cert)
  writeFileSync(config, `port: 0\nroutes: [{ plugin: ${guest('echo')} }]\n`)
  const flags = ['-c', config, '--jwt-jwks-url', issuer.url, '--jwt-audience', 'us']
  const server = start(flags, { NODE_EXTRA_CA_CERTS: ca })
  const url = await server.listening()
  expect(await statusOf(url, tokenOf(one, { aud: 'us' }))).toBe(200)
  expect(await statusOf(url, tokenOf(one, { aud: 'them' }))).toBe(401)
  issuer.keys = [two.jwk]
  expect(await statusOf(url, tokenOf(two, { aud: 'us' }))).toBe(200)
  expect(await statusOf(url, tokenOf(one, { aud: 'us' }))).toBe(401)

  await issuer.down()
  writeFileSync(config, `port: 0\nroutes: [{ plugin: ${guest('upper')} }]\n`)
  server.kill('SIGHUP')
  await server.logged('"changed"')
  expect(await statusOf(url, tokenOf(two, { aud: 'us' }))).toBe(200)
  expect(server.stderr()).not.toContain('WASM_SERVE_JWT_KEYS_UNAVAILABLE')
  server.kill('SIGTERM')
  expect((await server.ended).code).toBe(0)
})

test('a command whose issuer is not there starts, says so in its log, and ends at once', async () => {
  const issuer = await openIssuer()
  await issuer.down()
  const server = start([guest('echo'), '0', '--jwt-jwks-url', issuer.url])
  const url = await server.listening()
  await server.logged('WASM_SERVE_JWT_KEYS_UNAVAILABLE')
  expect(await statusOf(url, tokenOf(signingKey('one')))).toBe(503)
  server.kill('SIGTERM')
  expect((await server.ended).code).toBe(0)
})
