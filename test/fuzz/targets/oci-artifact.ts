import { gzipSync } from 'node:zlib'
import { ImageModules } from '../../../src/plugin/oci/image.ts'
import { parseOciManifest } from '../../../src/plugin/oci/oci-manifest.ts'
import { readTar } from '../../../src/plugin/oci/tar.ts'
import { UnpackBudget, UnpackError, unpack } from '../../../src/plugin/oci/unpack.ts'
import { fixSums, paxOf, tarEntry, tarOf } from '../../support/tar.ts'
import { choose, mutate as mutateBytes } from '../mutate.ts'
import type { FuzzTarget, Random } from '../target.ts'

/** What a layer may unpack to. */
const LIMIT = 100_000

/**
 * Manifests and layers of OCI artifacts: each is read, or refused with a reason. No path leads out of an archive, no more bytes are kept
 * than the limit permits, and the result does not depend on the pieces in which a layer arrives.
 */
export const target: FuzzTarget = {
  name: 'oci-artifact',
  seeds,
  async run(input) {
    if (input[0] === 0x7b) return `manifest: ${resultOf(input)}`
    const [whole, inSteps] = [await readWith(input, LIMIT), await readWith(input, 7)]
    if (whole !== inSteps) throw new Error(`in pieces it is ${inSteps}, not ${whole}`)
    return `layer: ${whole}, ${await modulesIn(input)}`
  },
  mutate,
}

function resultOf(input: Uint8Array): string {
  const parsed = parseOciManifest(input)
  if (parsed.kind === 'invalid') return parsed.problem.replaceAll(/\d+|"[^"]*"/g, '').slice(0, 60)
  return parsed.kind === 'index' ? `index of ${parsed.manifests.length}` : `${parsed.layers.length} layers`
}

async function readWith(input: Uint8Array, step: number): Promise<string> {
  async function* pieces() {
    for await (const piece of unpack(input, new UnpackBudget(LIMIT)))
      for (let at = 0; at < piece.length; at += step) yield piece.subarray(at, at + step)
  }
  return reasonOr(async () => {
    const entries = await readTar(pieces(), () => true)
    const kept = entries.reduce((sum, { bytes }) => sum + (bytes?.length ?? 0), 0)
    if (kept > LIMIT) throw new Error(`${kept} bytes were kept`)
    const stray = entries.find(({ path }) => /^\/|(?:^|\/)\.\.(?:\/|$)|\0/.test(path))
    if (stray) throw new Error(`the path ${stray.path} leads out of the archive`)
    return [...new Set(entries.map(({ kind }) => kind))].sort().join(' ')
  })
}

function modulesIn(input: Uint8Array): Promise<string> {
  return reasonOr(async () => {
    const modules = new ImageModules(new UnpackBudget(LIMIT))
    await modules.add(input, undefined)
    return `${Math.min(2, modules.candidates().length)} modules`
  })
}

/** @throws what is no refusal. */
async function reasonOr(work: () => Promise<string>): Promise<string> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof UnpackError)) throw error
    return error.message.replaceAll(/\d+/g, 'n').slice(0, 60)
  }
}

function* seeds(): Iterable<Uint8Array> {
  const digest = `sha256:${'0'.repeat(64)}`
  const config = { mediaType: 'application/vnd.wasm.config.v0+json', digest, size: 2 }
  const layers = [{ mediaType: 'application/wasm', digest, size: 8, annotations: { a: 'b' } }]
  yield json({ schemaVersion: 2, config, layers, annotations: { a: 'b' }, subject: config })
  yield json({
    schemaVersion: 2,
    manifests: [{ ...config, platform: { os: 'wasip1', architecture: 'wasm' } }],
  })
  const module = Buffer.from('\0asm\x01\0\0\0')
  const archive = tarOf(
    { name: 'folder/', type: '5' },
    { name: 'folder/plugin.wasm', content: module },
    tarEntry({ name: 'x', type: 'L', content: 'a/long.wasm\0' }),
    { name: 'x', content: module },
    paxOf({ path: 'b/pax.wasm', size: '8' }),
    { name: 'x', content: module },
    { name: '.wh.folder' },
    { name: 'link.wasm', type: '2' },
  )
  yield archive
  yield gzipSync(archive)
  yield gzipSync(Buffer.alloc(LIMIT + 1))
  yield module
}

function json(document: object): Uint8Array {
  return Buffer.from(JSON.stringify(document))
}

/** Most mutants of archives have valid checksums, or nothing else would be reached. */
function mutate(input: Uint8Array, random: Random): Uint8Array {
  const other = choose(random, SEEDS)
  const mutant = Buffer.from(mutateBytes(input, other, random))
  if (random() < 0.8) fixSums(mutant)
  return mutant
}

const [first = new Uint8Array(), ...more] = seeds()
const SEEDS = [first, ...more] as const
