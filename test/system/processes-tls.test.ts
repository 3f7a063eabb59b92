import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { expect, test } from 'vitest'
import { startApi, temporaryFolder } from '../support/admin-api.ts'
import { selfSigned } from '../support/certificate.ts'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { childrenOf, linesOf, until } from '../support/processes.ts'

const [first, second] = [selfSigned('first.example'), selfSigned('second.example')]

/** A server whose certificate is the first. */
async function startTls(...flags: string[]) {
  const cwd = temporaryFolder()
  const write = (name: string, text: string) => writeFileSync(join(cwd, name), text)
  write('cert.pem', first.cert)
  write('key.pem', first.key)
  const args = [guest('echo'), '--tls-cert', 'cert.pem', '--tls-key', 'key.pem', ...flags]
  return { ...(await startApi(start, args, cwd)), write }
}

/** The name in the certificate of a new connection. */
async function nameAt(url: string): Promise<string> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const { CN } = socket.getPeerCertificate().subject
  socket.destroy()
  return String(CN)
}

/** Of several new connections, which all processes have a share of. */
async function namesAt(url: string): Promise<Set<string>> {
  const names = new Set<string>()
  for (let count = 0; count < 8; count++) names.add(await nameAt(url))
  return names
}

test('a process that is lost while the files of tls are renewed is replaced, with the files of the others', async () => {
  const server = await startTls('--processes', '2')
  server.write('cert.pem', second.cert) // its key is not written yet
  for (const pid of childrenOf(server.child.pid ?? 0)) process.kill(pid, 'SIGKILL')
  await until(() => linesOf(server, 'a serving process was started').length === 2)
  expect(await namesAt(server.url)).toEqual(new Set(['first.example']))

  const refused = await server.api('POST', '/api/restart')
  expect([refused.status, refused.body.code]).toEqual([422, 'WASM_SERVE_TLS_INVALID'])
  expect((await server.api('POST', '/api/reload')).body.change).toMatchObject({ ok: true })
  expect(await namesAt(server.url)).toEqual(new Set(['first.example']))

  server.write('key.pem', second.key)
  expect((await server.api('POST', '/api/restart')).status).toBe(200)
  expect(await namesAt(server.url)).toEqual(new Set(['second.example']))
})

test('a reload does not read the files of tls', async () => {
  const server = await startTls()
  server.write('key.pem', second.key)
  expect((await server.api('POST', '/api/reload')).body.change).toMatchObject({ ok: true, kept: 1 })
  expect(await nameAt(server.url)).toBe('first.example')
})
