import { createHash, type KeyObject } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Attempt } from '../../src/deploy/deployments.ts'
import { followTags } from '../../src/deploy/follow-tags.ts'
import { RegistryRefusedError, RegistryUnreachableError } from '../../src/errors/errors.ts'
import { startWithAdmin, temporaryFolder } from '../support/admin-api.ts'
import { changing } from '../support/change.ts'
import { run, start } from '../support/cli.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { type OciRegistry, openOciRegistry, type StoredDescriptor } from '../support/oci-registry.ts'
import { putPlugin, REGISTRY_NAME, signBytes, signManifest } from '../support/registry-plugins.ts'
import { BUNDLE_TYPE, makeKey, SIGNATURE_STATEMENT, signStatement } from '../support/signatures.ts'

const ECHO = guestBytes('echo')
const UPPER = guestBytes('upper')
const HELLO = readFileSync(fileURLToPath(new URL('../../plugins/hello/hello.wasm', import.meta.url)))
const NAME = REGISTRY_NAME

function testKey() {
  const key = makeKey()
  onTestFinished(() => key.close())
  return key
}

async function openTest() {
  const registry = await openOciRegistry()
  const cache = temporaryFolder()
  const reference = (suffix: string) => `oci://${registry.host}/${NAME}${suffix}`
  const call = (suffix: string, ...flags: string[]) =>
    run(['call', reference(suffix), '-i', 'abc', '--cache-folder', cache, ...flags])
  return { registry, cache, reference, call }
}

test('a plug-in of a registry is served, inspected, called and checked', async () => {
  const { registry, cache, reference, call } = await openTest()
  const { digest } = putPlugin(registry, UPPER, '1.2')
  expect(await call(':1.2')).toMatchObject({ code: 0, stdout: 'ABC' })
  const inspected = await run(['inspect', reference(':1.2'), '--cache-folder', cache])
  expect(inspected.stdout).toContain(`from: ${reference('')}@${digest}`)
  const checked = await run(['check', reference(':1.2'), '--cache-folder', cache])
  expect(checked.stdout.split(/ +/)).toContain(reference(''))
  const server = start([reference(':1.2'), '--port', '0', '--cache-folder', cache])
  const answer = await fetch(await server.listening(), { method: 'POST', body: 'abc' })
  expect(await answer.text()).toBe('ABC')
})

test('what is pinned and in the cache needs no request, also if it is signed', async () => {
  const { registry, call } = await openTest()
  const key = testKey()
  const stored = putPlugin(registry, UPPER, '1')
  signManifest(registry, stored, key.privateKey)
  const flags = ['--trust', `${registry.host}/acme/=${key.path}`]
  expect(await call(`@${stored.digest}`, ...flags)).toMatchObject({ code: 0, stdout: 'ABC' })
  registry.forgetRequests()
  expect(await call(`@${stored.digest}`, ...flags)).toMatchObject({ code: 0, stdout: 'ABC' })
  expect(registry.requests).toEqual([])
})

test('the pull policy decides when a tag is resolved', async () => {
  const { registry, call } = await openTest()
  const policy = (name: string) => ['--pull-policy', name]
  expect(await call(':1', ...policy('Never'))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('WASM_SERVE_PULL_NEVER'),
  })
  putPlugin(registry, ECHO, '1')
  putPlugin(registry, ECHO, 'latest')
  expect(await call(':1')).toMatchObject({ stdout: 'abc' })
  expect(await call(':latest')).toMatchObject({ stdout: 'abc' })
  putPlugin(registry, UPPER, '1')
  putPlugin(registry, UPPER, 'latest')
  expect(await call(':1')).toMatchObject({ stdout: 'abc' })
  expect(await call(':latest')).toMatchObject({ stdout: 'ABC' })
  expect(await call(':1', ...policy('Never'))).toMatchObject({ stdout: 'abc' })
  expect(await call(':1', ...policy('Always'))).toMatchObject({ stdout: 'ABC' })
})

test('a registry that is gone: the digest that the tag had before is used, with a warning', async () => {
  const { registry, cache, reference } = await openTest()
  putPlugin(registry, UPPER, 'latest')
  const args = [reference(''), '--port', '0', '--cache-folder', cache]
  await start(args).listening()
  await registry.close()
  const server = start(args)
  await server.listening()
  expect(server.stderr()).toContain('using the digest that the tag had before, sha256:')
})

test('the digest wins over the tag, and the pin of the module is checked', async () => {
  const { registry, call } = await openTest()
  const { digest } = putPlugin(registry, UPPER, undefined)
  putPlugin(registry, ECHO, '1')
  expect(await call(`:1@${digest}`)).toMatchObject({ stdout: 'ABC' })
  const pin = createHash('sha256').update(UPPER).digest('hex')
  expect(await call(`@${digest}#sha256=${pin}`)).toMatchObject({ stdout: 'ABC' })
  expect((await call(`@${digest}#sha256=${'0'.repeat(64)}`)).stderr).toContain('WASM_SERVE_DIGEST_MISMATCH')
})

test('an Extism manifest, an XTP schema and smoke requests travel as annotations', async () => {
  const { registry, reference } = await openTest()
  const manifest = JSON.stringify({ wasm: [{ path: 'plugin.wasm' }], memory: { max_pages: 27 } })
  const xtpSchema = 'version: v1-draft\nexports:\n  hello: { description: A greeting }\n'
  const annotations = {
    'dev.wasm-serve.extism-manifest': manifest,
    'dev.wasm-serve.xtp-schema': xtpSchema,
    'dev.wasm-serve.smoke': JSON.stringify({ hello: { body: 'abc', answer: '{"message":"🦀 Hello abc"}' } }),
  }
  putPlugin(registry, HELLO, '1', annotations)
  const flags = ['--cache-folder', temporaryFolder()]
  const { stdout } = await run(['inspect', reference(':1'), '--json', ...flags])
  expect(JSON.parse(stdout).modules[0].memories[0]).toMatchObject({ cap: 27 })
  const openapi = await run(['openapi', reference(':1'), ...flags])
  expect(JSON.parse(openapi.stdout).paths['/'].post).toMatchObject({ description: 'A greeting' })
  putPlugin(registry, HELLO, '2', { ...annotations, 'dev.wasm-serve.smoke': '{"hello":{"answer":"no"}}' })
  const refused = await run([reference(':2'), '--port', '0', ...flags])
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('WASM_SERVE_SMOKE_FAILED') })
})

test('a manifest of an artifact opens no folder of this machine', async () => {
  const { registry, call } = await openTest()
  const manifest = JSON.stringify({ wasm: [{ path: 'plugin.wasm' }], allowed_paths: { '/': '/' } })
  putPlugin(registry, UPPER, '1', { 'dev.wasm-serve.extism-manifest': manifest })
  expect(await call(':1')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('WASM_SERVE_MANIFEST_INVALID'),
  })
})

test('without a policy a companion that refers to a tag counts; under a policy only a signed one', async () => {
  const { registry, reference } = await openTest()
  const key = testKey()
  const stored = putPlugin(registry, HELLO, '1')
  const companion = registry.putReferrer(NAME, stored, {
    artifactType: 'application/vnd.extism.manifest.v1+json',
    layers: [
      {
        mediaType: 'application/json',
        bytes: JSON.stringify({ wasm: [{ path: 'plugin.wasm' }], memory: { max_pages: 29 } }),
      },
    ],
  })
  signManifest(registry, stored, key.privateKey)
  const capOf = async (...flags: string[]) => {
    const args = ['inspect', reference(':1'), '--json', '--cache-folder', temporaryFolder(), ...flags]
    return JSON.parse((await run(args)).stdout).modules[0].memories[0].cap
  }
  expect(await capOf()).toBe(29)
  const trust = ['--trust', `${registry.host}/acme/=${key.path}`]
  expect(await capOf(...trust)).toBe(2_048)
  signManifest(registry, companion, key.privateKey)
  expect(await capOf(...trust)).toBe(29)
})

test('links and manifests name artifacts too', async () => {
  const { registry, reference } = await openTest()
  putPlugin(registry, UPPER, '1')
  const folder = temporaryFolder()
  const path = join(folder, 'manifest.json')
  writeFileSync(path, JSON.stringify({ wasm: [{ url: reference(':1') }] }))
  const flags = ['--cache-folder', folder, '-i', 'abc']
  expect(await run(['call', path, ...flags])).toMatchObject({ stdout: 'ABC' })
  const { stdout } = await run([
    'inspect',
    guest('echo'),
    '--link',
    `other=${reference(':1')}`,
    '--cache-folder',
    folder,
  ])
  expect(stdout).toContain('module "other"')
})

test.each([
  ['no signature', 'WASM_SERVE_SIGNATURE_MISSING', () => undefined],
  [
    'a signature of another key',
    'WASM_SERVE_SIGNATURE_INVALID',
    (registry: OciRegistry, stored: StoredDescriptor) => signManifest(registry, stored, testKey().privateKey),
  ],
  [
    'a signature of other bytes',
    'WASM_SERVE_SIGNATURE_INVALID',
    (registry: OciRegistry, stored: StoredDescriptor, key: KeyObject) => {
      const other = putPlugin(registry, ECHO, undefined)
      const sha256 = other.digest.slice('sha256:'.length)
      const bundle = signStatement(key, { ...SIGNATURE_STATEMENT, subject: [{ digest: { sha256 } }] })
      registry.putReferrer(NAME, stored, {
        artifactType: BUNDLE_TYPE,
        layers: [{ mediaType: BUNDLE_TYPE, bytes: JSON.stringify(bundle) }],
      })
    },
  ],
])('an artifact with %s is refused, and its module is not fetched', async (_, code, signIt) => {
  const { registry, call } = await openTest()
  const key = testKey()
  const stored = putPlugin(registry, UPPER, '1')
  signIt(registry, stored, key.privateKey)
  const refused = await call(':1', '--trust', `${registry.host}/acme=${key.path}`)
  expect(refused).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(code) })
  const module = `blobs/sha256:${createHash('sha256').update(UPPER).digest('hex')}`
  expect(registry.requests.filter(({ url }) => url.endsWith(module))).toEqual([])
})

test('a policy of another repository does not apply; with --require-signatures one must', async () => {
  const { registry, call } = await openTest()
  const key = testKey()
  putPlugin(registry, UPPER, '1')
  const other = ['--trust', `${registry.host}/acme/hell=${key.path}`]
  expect(await call(':1', ...other)).toMatchObject({ code: 0 })
  const refused = await call(':1', ...other, '--require-signatures')
  expect(refused.stderr).toContain('WASM_SERVE_TRUST_POLICY_MISSING')
})

test('with --require-signatures a file needs a bundle beside it, or a pin', async () => {
  const key = testKey()
  const folder = temporaryFolder()
  const path = join(folder, 'upper.wasm')
  writeFileSync(path, UPPER)
  const call = (source: string, ...flags: string[]) =>
    run(['call', source, '-i', 'abc', '--require-signatures', '--cache-folder', folder, ...flags])
  expect((await call(path)).stderr).toContain('WASM_SERVE_TRUST_POLICY_MISSING')
  const pin = createHash('sha256').update(UPPER).digest('hex')
  expect(await call(`${path}#sha256=${pin}`)).toMatchObject({ code: 0, stdout: 'ABC' })
  const trust = ['--trust', `*=${key.path}`]
  expect((await call(path, ...trust)).stderr).toContain('WASM_SERVE_SIGNATURE_MISSING')
  writeFileSync(`${path}.sigstore.json`, signBytes(ECHO, key.privateKey))
  expect((await call(path, ...trust)).stderr).toContain('WASM_SERVE_SIGNATURE_INVALID')
  writeFileSync(`${path}.sigstore.json`, signBytes(UPPER, key.privateKey))
  expect(await call(path, ...trust)).toMatchObject({ code: 0, stdout: 'ABC' })
})

test('a trust setting that cannot be used is a mistake of the configuration', async () => {
  const { registry, call } = await openTest()
  putPlugin(registry, UPPER, '1')
  expect(await call(':1', '--trust', `${registry.host}/=/nowhere.pub`)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('WASM_SERVE_TRUST_INVALID'),
  })
})

test('the admin API takes artifacts and signed uploads, shows their signers, and a restart verifies them again', async () => {
  const { registry, cache, reference } = await openTest()
  const key = testKey()
  const stored = putPlugin(registry, UPPER, '1')
  signManifest(registry, stored, key.privateKey)
  const folder = temporaryFolder()
  const pin = createHash('sha256').update(ECHO).digest('hex')
  const args = [
    ...[`${guest('echo')}#sha256=${pin}`, '--require-signatures', '--state', join(folder, 'state')],
    ...['--cache-folder', cache, '--trust', `*=${key.path}`],
  ]
  const server = await startWithAdmin(args)
  const put = (name: string, body: unknown) => server.api('PUT', `/api/plugins/${name}`, body)
  const signer = expect.stringMatching(/^test\.pub \(sha256:[\da-f]{12}\)$/)

  const pulled = await put('pulled', { source: reference(':1') })
  expect(pulled.body.plugin.versions[0]).toMatchObject({
    origin: `${reference('')}@${stored.digest}`,
    signer,
  })
  expect((await put('bare', UPPER)).body.code).toBe('WASM_SERVE_SIGNATURE_MISSING')
  const wasm = Buffer.from(UPPER).toString('base64')
  const wrong = { wasm, bundle: signBytes(ECHO, key.privateKey) }
  expect((await put('wrong', wrong)).body.code).toBe('WASM_SERVE_SIGNATURE_INVALID')
  expect((await put('both', { wasm, source: reference(':1') })).status).toBe(400)
  const uploaded = await put('uploaded', { wasm, bundle: signBytes(UPPER, key.privateKey) })
  expect(uploaded.body.plugin.versions[0]).toMatchObject({ from: 'upload', signer })
  for (const plugin of ['pulled', 'uploaded'])
    expect((await server.api('POST', '/api/routes', { plugin, url: `/${plugin}` })).status).toBe(201)
  const metrics = await (await fetch(`${server.adminUrl}/metrics`)).text()
  expect(metrics).toMatch(/wasm_serve_plugin_info\{plugin="pulled".*signer="test\.pub .*"\} 1/)
  expect(server.stderr()).toContain('the origin of a plug-in')
  server.kill('SIGTERM')
  await server.ended

  await registry.close()
  const again = await startWithAdmin(args)
  expect(await again.post('/pulled', 'abc')).toEqual([200, 'ABC'])
  expect(await again.post('/uploaded', 'abc')).toEqual([200, 'ABC'])
  again.kill('SIGTERM')
  await again.ended

  const revoked = [...args.slice(0, -1), `*=${testKey().path}`]
  const refused = await run([...revoked, '--port', '0', '--admin', '127.0.0.1:0'])
  expect(refused.code).toBe(1)
  expect(refused.stderr).toMatch(/WASM_SERVE_(?:SIGNATURE_INVALID|REGISTRY_UNREACHABLE)/)
})

test('a reload logs the origin of a plug-in if it is another one, and is silent if it is the same', async () => {
  const { registry, cache, reference } = await openTest()
  const first = putPlugin(registry, ECHO, '1')
  const server = await startWithAdmin([reference(':1'), '--cache-folder', cache, '--pull-policy', 'Always'])
  const origins = () => server.stderr().match(/"origin":"[^"]*"/g)
  expect((await server.api('POST', '/api/reload')).status).toBe(200)
  const second = putPlugin(registry, UPPER, '1')
  expect((await server.api('POST', '/api/reload')).status).toBe(200)
  expect(await server.post('/', 'abc')).toEqual([200, 'ABC'])
  expect(origins()).toEqual([first, second].map(({ digest }) => `"origin":"${reference('')}@${digest}"`))
})

test('a tag is followed: a new digest goes live after its trial, a refused one does not, and is tried again', async () => {
  const registry = await openOciRegistry()
  const first = putPlugin(registry, ECHO, '1')
  const reference = `oci://${registry.host}/${NAME}:1`
  const { deployments, post } = await changing([{ plugin: reference, url: '/' }])
  const attempts = new EventEmitter<{ ended: [Attempt] }>()
  const attempt = deployments.attempt.bind(deployments)
  vi.spyOn(deployments, 'attempt').mockImplementation(async (...args) => {
    const ended = await attempt(...args)
    attempts.emit('ended', ended)
    return ended
  })
  const lines: object[] = []
  const log = pino({ base: null }, { write: (line) => lines.push(JSON.parse(line)) })
  onTestFinished(followTags(deployments, 5, log))

  const broken = putPlugin(registry, guestBytes('bad-start'), '1')
  const [refused] = await once(attempts, 'ended')
  expect(refused.record.error).toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
  expect(await post('/', 'abc')).toMatchObject({ body: 'abc' })
  await once(attempts, 'ended')
  expect(lines).toMatchObject([{ reference, from: first.digest, to: broken.digest }])
  expect(deployments.behind).toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
  putPlugin(registry, ECHO, '1')
  for (let live = false; !live; ) live = (await once(attempts, 'ended'))[0].deployment !== undefined
  expect(deployments.behind).toBeUndefined()

  const fixed = putPlugin(registry, UPPER, '1')
  for (let live = false; !live; ) live = (await once(attempts, 'ended'))[0].deployment !== undefined
  expect(await post('/', 'abc')).toMatchObject({ body: 'ABC' })
  expect(lines[1]).toMatchObject({ from: first.digest, to: fixed.digest })
})

test('a tag whose registry fails is logged once, whatever the words of the registry', async () => {
  const registry = await openOciRegistry()
  putPlugin(registry, ECHO, '1')
  const { deployments } = await changing([{ plugin: `oci://${registry.host}/${NAME}:1`, url: '/' }])
  const polls = new EventEmitter<{ asked: [number] }>()
  let count = 0
  vi.spyOn(deployments, 'resolveTag').mockImplementation(async () => {
    polls.emit('asked', ++count)
    if (count === 4) throw new RegistryRefusedError('it', 'no access')
    throw new RegistryUnreachableError('it', `request ${count}`)
  })
  const lines: object[] = []
  const log = pino({ base: null }, { write: (line) => lines.push(JSON.parse(line)) })
  onTestFinished(followTags(deployments, 5, log))
  while (count < 6) await once(polls, 'asked')
  expect(lines).toMatchObject([
    { msg: expect.stringContaining('request 1') },
    { msg: expect.stringContaining('no access') },
    { msg: expect.stringContaining('request 5') },
  ])
})

test('push writes what pull reads, with the manifest, the schema and smoke requests', async () => {
  const { registry, cache, reference, call } = await openTest()
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'hello.wasm'), HELLO)
  writeFileSync(join(folder, 'hello.schema.yaml'), 'version: v1-draft\nexports: {}\n')
  writeFileSync(join(folder, 'smoke.json'), '{"hello":{"body":"abc"}}')
  const manifest = { wasm: [{ path: 'hello.wasm' }], memory: { max_pages: 25 } }
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify(manifest))
  const push = (...args: string[]) =>
    run(['push', ...args], { SOURCE_DATE_EPOCH: '1700000000' }, { cwd: folder })
  const first = await push('manifest.json', reference(':1'), '--smoke', 'smoke.json', '--json')
  const { digest, image } = JSON.parse(first.stdout)
  expect(registry.digestOf(NAME, '1')).toBe(digest)
  expect(image).toBe(`${registry.host}/${NAME}@${digest}`) // as other programs take it
  const again = await push('manifest.json', reference(':2'), '--smoke', 'smoke.json')
  expect(again.stdout).not.toContain(digest) // the version is part of it
  expect((await push('manifest.json', reference(':1'), '--smoke', 'smoke.json')).stdout).toContain(digest)
  const stored = JSON.parse(Buffer.from(registry.manifest(NAME, digest) ?? '').toString())
  expect(stored).toMatchObject({
    config: { mediaType: 'application/vnd.wasm.config.v0+json' },
    layers: [{ mediaType: 'application/wasm' }],
    annotations: {
      'org.opencontainers.image.created': '2023-11-14T22:13:20.000Z',
      'org.opencontainers.image.version': '1',
      'dev.wasm-serve.xtp-schema': 'version: v1-draft\nexports: {}\n',
    },
  })
  expect(await call(':1')).toMatchObject({ code: 0, stdout: expect.stringContaining('Hello abc') })
  const { stdout } = await run(['inspect', reference(':1'), '--json', '--cache-folder', cache])
  expect(JSON.parse(stdout).modules[0].memories[0].cap).toBe(25)
})

test('push prints the reference, and in a terminal the command that signs it', async () => {
  const { registry, reference } = await openTest()
  const push = (isOutTerminal: boolean) =>
    run(['push', guest('upper'), reference(':1')], {}, { isOutTerminal })
  const { stdout } = await push(false)
  const pinned = `${registry.host}/${NAME}@${registry.digestOf(NAME, '1')}`
  expect(stdout).toBe(`oci://${pinned}\n`)
  expect((await push(true)).stdout).toMatch(
    /^oci:.+\nSign it: cosign sign --key cosign\.key [^:]+:\d+\/.+@sha256:\w+\n$/,
  )
})

test.each([
  ['ghcr.io/acme/hello:1', 'WASM_SERVE_PLUGIN_UNREADABLE', 'write oci://ghcr.io/acme/hello:1'],
  ['docker://ghcr.io/acme/hello:1', 'WASM_SERVE_SOURCE_INVALID', 'write oci://ghcr.io/acme/hello:1'],
  ['oci://user:s3cret@ghcr.io/acme/hello', 'WASM_SERVE_SOURCE_INVALID', 'credentials come from'],
])('%s is refused with what to write', async (source, code, text) => {
  for (const args of [
    ['call', source],
    ['push', guest('echo'), source],
  ]) {
    const refused = await run(args)
    expect(refused).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(text) })
    expect(refused.stderr).not.toContain('s3cret')
  }
  expect((await run(['call', source])).stderr).toContain(code)
})

test.each([
  [['push'], 2, 'WASM_SERVE'],
  [['push', guest('echo'), 'ghcr.io/acme/hello'], 2, 'WASM_SERVE_SOURCE_INVALID'],
  [['push', guest('echo'), `oci://localhost/a@sha256:${'0'.repeat(64)}`], 2, 'WASM_SERVE_SOURCE_INVALID'],
  [['push', '/nowhere.wasm', 'oci://localhost/a'], 2, 'WASM_SERVE_PLUGIN_UNREADABLE'],
  [['push', guest('echo'), 'oci://localhost/a', '--port', '1'], 2, 'not supported by push'],
])('%j is refused with one line', async (args, code, text) => {
  const refused = await run(args)
  expect(refused).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(text) })
  expect(refused.stderr).not.toContain('    at ')
})
