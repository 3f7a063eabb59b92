import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli-process.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { openOciRegistry } from '../support/oci-registry.ts'
import { putPlugin, REGISTRY_NAME, signManifest } from '../support/registry-plugins.ts'
import { startDockerRegistry } from '../support/registry-server.ts'
import { makeKey } from '../support/signatures.ts'
import { describeWith } from '../support/tools.ts'

const UPPER = guestBytes('upper')
const ECHO = guestBytes('echo')

function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-registry-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** The user `acme` with the password `sesame-123`. */
const HTPASSWD = 'acme:$2b$05$lYT8kt2SOMUfBTTOq/n6J.ikCy5GqhylBIaBQSkZbA1zvVlobxutG\n'

describeWith(['docker-registry'], () => {
  test('a password comes from the Docker configuration, and is in no message', async () => {
    const { host } = await startDockerRegistry(HTPASSWD)
    const folder = temporaryFolder()
    const logIn = (password: string) => {
      const auth = Buffer.from(`acme:${password}`).toString('base64')
      writeFileSync(join(folder, 'config.json'), JSON.stringify({ auths: { [host]: { auth } } }))
    }
    const env = { DOCKER_CONFIG: folder }
    const reference = `oci://${host}/acme/upper:1`
    logIn('sesame-123')
    expect(await run(['push', guest('upper'), reference], env)).toMatchObject({ code: 0, stderr: '' })
    const call = () => run(['call', reference, '-i', 'abc', '--cache-folder', temporaryFolder()], env)
    expect(await call()).toMatchObject({ code: 0, stdout: 'ABC' })
    logIn('wrong-0456')
    const refused = await call()
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('WASM_SERVE_REGISTRY_REFUSED') })
    expect(refused.stderr).not.toMatch(/wrong|sesame|YWNtZ/)
    rmSync(join(folder, 'config.json'))
    expect((await call()).stderr).toContain('WASM_SERVE_REGISTRY_REFUSED')
  })
})

test(
  'following a tag under load loses no request of 100,000, and takes only what is signed',
  { timeout: 300_000 },
  async () => {
    const registry = await openOciRegistry()
    const key = makeKey()
    onTestFinished(() => key.close())
    const sign = (bytes: Uint8Array, isSigned = true) => {
      const stored = putPlugin(registry, bytes, '1', { at: `${performance.now()}` })
      if (isSigned) signManifest(registry, stored, key.privateKey)
      return stored
    }
    sign(ECHO)
    const server = start([
      ...[`oci://${registry.host}/${REGISTRY_NAME}:1`, '--port', '0', '--registry-poll-ms', '1000'],
      ...['--cache-folder', temporaryFolder(), '--trust', `${registry.host}/acme=${key.path}`],
    ])
    const url = await server.listening()
    const load = startLoad({
      url,
      connections: 20,
      body: (id) => `id ${id}`,
      isAnswer: (answer, body) => answer === body || answer === body.toUpperCase(),
    })
    const post = async () => (await fetch(url, { method: 'POST', body: 'abc' })).text()

    for (let change = 1; change <= 4; change++) {
      sign(change % 2 ? UPPER : ECHO)
      await server.logged('"changed"', change)
      expect(await post()).toBe(change % 2 ? 'ABC' : 'abc')
    }
    const unsigned = sign(UPPER, false)
    await server.logged('WASM_SERVE_SIGNATURE_MISSING')
    expect(await post()).toBe('abc')
    signManifest(registry, unsigned, key.privateKey)
    await server.logged('"changed"', 5)
    expect(await post()).toBe('ABC')
    expect(server.stderr()).toContain(`"to":"${unsigned.digest}"`)

    await load.answered(Math.max(1, 100_000 - load.counts.answers))
    expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
  },
)

test('a server starts from its cache while the registry is gone', async () => {
  const registry = await openOciRegistry()
  const key = makeKey()
  onTestFinished(() => key.close())
  const stored = putPlugin(registry, UPPER, '1')
  signManifest(registry, stored, key.privateKey)
  const args = [
    ...[`oci://${registry.host}/${REGISTRY_NAME}:1`, '--port', '0', '--cache-folder', temporaryFolder()],
    ...['--trust', `${registry.host}/acme=${key.path}`],
  ]
  const first = start(args)
  await first.listening()
  first.kill('SIGTERM')
  await first.ended
  await registry.close()
  const url = await start(args).listening()
  expect(await (await fetch(url, { method: 'POST', body: 'abc' })).text()).toBe('ABC')
})
