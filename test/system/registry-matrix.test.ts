import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type OciReference, parseReference } from '../../src/plugin/oci/reference.ts'
import { openRegistry } from '../../src/plugin/oci/registry.ts'
import { run } from '../support/cli.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { digestOf } from '../support/oci-registry.ts'
import { buildProgram, PROGRAMS } from '../support/registry-programs.ts'
import {
  openRegistryServer,
  REGISTRY_SERVERS,
  type RegistryServer,
  type RegistryServerName,
} from '../support/registry-server.ts'
import { OCI_MANIFEST, pushIndex, pushShape, SHAPES } from '../support/registry-shapes.ts'
import { makeKey, signArtifact } from '../support/signatures.ts'
import { tarOf } from '../support/tar.ts'
import { describeWith } from '../support/tools.ts'

/* Programs that push, registries that keep, and shapes: each plug-in is pulled, called, and answers right. */

const UPPER = guestBytes('upper')
const ECHO = guestBytes('echo')
const BUILD_MS = 600_000

/** A client without credentials. */
const client = openRegistry({ environment: {} })

function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), 'wasm-serve-matrix-'))
}

function referenceTo(text: string): OciReference {
  const reference = parseReference(`oci://${text}`)
  if ('problem' in reference) throw new Error(reference.problem)
  return reference
}

async function call(reference: string, ...flags: string[]) {
  const cache = temporaryFolder()
  onTestFinished(() => rmSync(cache, { recursive: true, force: true }))
  return run(['call', `oci://${reference}`, '-i', 'abc', '--cache-folder', cache, ...flags])
}

/** By tag, and by the digest that the registry says. */
async function expectUpper(name: string): Promise<void> {
  const answer = { code: 0, stdout: 'ABC', stderr: '' }
  expect(await call(`${name}:1`)).toMatchObject(answer)
  const digest = await client.resolve(referenceTo(name), '1')
  expect(await call(`${name}@${digest}`)).toMatchObject(answer)
}

/** The folder of the programs' inputs, which are also named by their commands. */
function writeInputs(folder: string): void {
  const write = (path: string, content: Uint8Array | string) => writeFileSync(join(folder, path), content)
  const archive = tarOf({ name: 'plugin.wasm', content: UPPER })
  write('upper.wasm', UPPER)
  write('config.json', '{}')
  write('layer.tar.gz', gzipSync(archive))
  mkdirSync(join(folder, 'layout/blobs/sha256'), { recursive: true })
  const put = (mediaType: string, bytes: Uint8Array) => {
    const digest = digestOf(bytes)
    write(`layout/blobs/${digest.replace(':', '/')}`, bytes)
    return { mediaType, digest, size: bytes.length }
  }
  const config = put(SHAPES.cncf.config, Buffer.from('{"architecture":"wasm","os":"wasip1"}'))
  const manifest = {
    schemaVersion: 2,
    mediaType: OCI_MANIFEST,
    config,
    layers: [put(SHAPES.cncf.layer, UPPER)],
  }
  write('layout/oci-layout', '{"imageLayoutVersion":"1.0.0"}')
  const manifests = [put(OCI_MANIFEST, Buffer.from(JSON.stringify(manifest)))]
  write('layout/index.json', JSON.stringify({ schemaVersion: 2, manifests }))
}

/** Commands of other programs that push to `NAME:1`. */
const COMMANDS: Readonly<Record<string, (name: string) => readonly string[]>> = {
  'crane append': (name) => ['crane', 'append', '--insecure', '-f', 'layer.tar.gz', '-t', `${name}:1`],
  'crane append, an image of OCI': (name) => [
    ...['crane', 'append', '--insecure', '--oci-empty-base'],
    ...['-f', 'layer.tar.gz', '-t', `${name}:1`],
  ],
  'crane push of a layout': (name) => ['crane', 'push', '--insecure', 'layout', `${name}:1`],
  'skopeo copy of a layout': (name) => [
    ...['skopeo', '--insecure-policy', 'copy', '--dest-tls-verify=false'],
    ...['oci:layout', `docker://${name}:1`],
  ],
  'oras of Python': (name) => ['oras-python', '-c', orasPush(name, '')],
  'oras of Python, with another file and no media types': (name) => [
    ...['oras-python', '-c'],
    orasPush(name, '', ['upper.wasm', 'config.json']),
  ],
  'oras of Python, with the config of the CNCF': (name) => [
    ...['oras-python', '-c'],
    orasPush(name, `, manifest_config="config.json:${SHAPES.cncf.config}"`),
  ],
  'oras of Python, in chunks': (name) => [
    ...['oras-python', '-c'],
    orasPush(name, ', do_chunked=True, chunk_size=1000'),
  ],
}

function orasPush(name: string, more: string, files = ['upper.wasm:application/wasm']): string {
  return `import oras.client; oras.client.OrasClient(insecure=True).push(target="${name}:1", files=${JSON.stringify(files)}, disable_path_validation=True${more})`
}

/** Runs a program. @returns its exit code, and its output if it failed. */
async function runProgram(
  [program = '', ...args]: readonly string[],
  cwd: string,
): Promise<readonly [number, string]> {
  const child = spawn(program, args, {
    cwd,
    env: { ...process.env, PATH: `${PROGRAMS}${delimiter}${process.env.PATH}`, DOCKER_CONFIG: cwd },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const [output, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  return [code, code === 0 ? '' : output]
}

describeWith(['docker-registry', 'go', 'python3', 'skopeo'], () => {
  const servers = new Map<RegistryServerName, RegistryServer>()
  const inputs = temporaryFolder()
  const nameAt = (server: RegistryServerName, name: string) =>
    `${servers.get(server)?.host}/acme/${name.replaceAll(/\W+/g, '-').toLowerCase()}`

  beforeAll(async () => {
    for (const name of ['crane', 'distribution', 'referrers-registry', 'oras-python'] as const)
      await buildProgram(name)
    for (const name of REGISTRY_SERVERS) servers.set(name, await openRegistryServer(name))
    writeInputs(inputs)
  }, BUILD_MS)

  afterAll(async () => {
    for (const server of servers.values()) await server.stop()
    rmSync(inputs, { recursive: true, force: true })
  })

  describe.each(REGISTRY_SERVERS)('registry %s', (server) => {
    test('pushed by wasm-serve, pulled by the printed digest', async () => {
      const name = nameAt(server, 'own')
      const pushed = await run(['push', guest('upper'), `oci://${name}:1`])
      expect(pushed).toMatchObject({ code: 0, stderr: '' })
      const pinned = `${name}@${await client.resolve(referenceTo(name), '1')}`
      expect(pushed.stdout).toBe(`oci://${pinned}\n`)
      await expectUpper(name)
    })

    test.each(
      Object.entries(SHAPES),
    )('pushed by plain requests: %s; and its copy by skopeo', async (shape, written) => {
      const name = nameAt(server, shape)
      await pushShape(client, referenceTo(name), '1', UPPER, written)
      await expectUpper(name)
      await expectCopy(name)
    })

    test('pushed by plain requests: an index, of which the module for wasm is taken; and its copy by skopeo', async () => {
      const name = nameAt(server, 'index')
      await pushIndex(client, referenceTo(name), '1', UPPER, ECHO)
      await expectUpper(name)
      await expectCopy(name)
    })

    /** The copy has the same digest. */
    async function expectCopy(name: string): Promise<void> {
      const digest = await client.resolve(referenceTo(name), '1')
      const flags = ['--all', '--preserve-digests', '--src-tls-verify=false', '--dest-tls-verify=false']
      const names = [`docker://${name}:1`, `docker://${name}-copy:1`]
      expect(await runProgram(['skopeo', '--insecure-policy', 'copy', ...flags, ...names], inputs)).toEqual([
        0,
        '',
      ])
      expect(await call(`${name}-copy:1@${digest}`)).toMatchObject({ code: 0, stdout: 'ABC' })
    }

    test.each(Object.entries(COMMANDS))('pushed by %s', async (pusher, command) => {
      const name = nameAt(server, pusher)
      expect(await runProgram(command(name), inputs)).toEqual([0, ''])
      await expectUpper(name)
    })

    test('a signature is found by the tag sha256-<hex>, and another key is refused', async () => {
      const name = nameAt(server, 'signed')
      const [key, other] = [makeKey(), makeKey()]
      onTestFinished(() => void [key, other].map((each) => each.close()))
      const digest = await pushShape(client, referenceTo(name), '1', UPPER, SHAPES.cncf)
      const trust = (path: string) => ['--trust', `${name}=${path}`]
      expect((await call(`${name}:1`, ...trust(key.path))).stderr).toContain('WASM_SERVE_SIGNATURE_MISSING')
      await signArtifact(client, { ...referenceTo(name), digest }, key.privateKey)
      expect(await call(`${name}:1`, ...trust(key.path))).toMatchObject({ code: 0, stdout: 'ABC' })
      expect((await call(`${name}:1`, ...trust(other.path))).stderr).toContain('WASM_SERVE_SIGNATURE_INVALID')
    })

    test(`a signature without that tag is ${server === 'referrers-registry' ? 'found by the referrers API' : 'not found'}`, async () => {
      const name = nameAt(server, 'referrer')
      const key = makeKey()
      onTestFinished(() => key.close())
      const digest = await pushShape(client, referenceTo(name), '1', UPPER, SHAPES.cncf)
      await signArtifact(client, { ...referenceTo(name), digest }, key.privateKey, false)
      const { stdout, stderr } = await call(`${name}:1`, '--trust', `${name}=${key.path}`)
      if (server === 'referrers-registry') expect([stdout, stderr]).toEqual(['ABC', ''])
      else expect(stderr).toContain('WASM_SERVE_SIGNATURE_MISSING')
    })
  })
})
