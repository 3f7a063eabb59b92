import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { openRegistry, type RegistryOptions } from '../../src/plugin/oci/registry.ts'
import { digestOf, type OciRegistryOptions, openOciRegistry } from './oci-registry.ts'

/** Bytes that begin as a module does. */
export const MODULE = Buffer.from('\0asm, and some bytes more')

/** The descriptor of {@link MODULE}. */
export const DESCRIPTOR = { digest: digestOf(MODULE), size: MODULE.length }

/** A folder of the test's own. */
export function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** A registry with a plug-in, a client of it without credentials, and the name of the repository. */
export async function openClient(server: OciRegistryOptions = {}, client: Partial<RegistryOptions> = {}) {
  const remote = await openOciRegistry(server)
  remote.putBlob(MODULE)
  const manifest = remote.putArtifact(
    'acme/hello',
    { layers: [{ mediaType: 'application/wasm', bytes: MODULE }] },
    '1.0',
  )
  const registry = openRegistry({
    environment: { HOME: '/nowhere', PATH: process.env.PATH },
    retryDelaysMs: [0, 0],
    ...client,
  })
  return { remote, registry, manifest, repository: { registry: remote.host, repository: 'acme/hello' } }
}

/** An environment whose Docker configuration has an entry for a host. */
export function dockerConfig(host: string, entry: object): Record<string, string> {
  const path = temporaryFolder()
  writeFileSync(join(path, 'config.json'), JSON.stringify({ auths: { [host]: entry } }))
  return { DOCKER_CONFIG: path }
}

/** An entry of a Docker configuration. */
export const LOGIN = { auth: Buffer.from('ada:s3cret').toString('base64') }

/** Answers the first requests whose path has this part in another way; `times` of them. */
export function fault(
  part: string,
  answer: (response: ServerResponse, request: IncomingMessage) => void,
  times = 99,
) {
  let left = times
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    if (!request.url?.includes(part) || left-- <= 0) return false
    answer(response, request)
    return true
  }
}
