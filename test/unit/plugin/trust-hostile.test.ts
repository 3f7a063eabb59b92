import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Descriptor, Registry } from '../../../src/plugin/oci/registry.ts'
import { collectEvidence, parseEvidence, renderEvidence } from '../../../src/plugin/trust/evidence.ts'
import { parseJsonBytes } from '../../../src/plugin/trust/strict-json.ts'
import { openTrust } from '../../../src/plugin/trust/trust.ts'
import { verifyArtifact, verifyFile } from '../../../src/plugin/trust/verify.ts'
import { runs } from '../../support/runs.ts'
import {
  BUNDLE_TYPE,
  DIGEST,
  FILE,
  fixture,
  KEYLESS,
  REPOSITORY,
  registryWith,
} from '../../support/signatures.ts'

const opened = openTrust({
  '*': { keys: [fixture('keys/p256.pub')], ...KEYLESS, trustedRoot: fixture('trusted-root.json') },
})

async function trusted() {
  const policy = (await opened).policyFor(undefined)
  if (!policy) throw new Error('no policy')
  return policy
}

const REFUSED = { code: expect.stringMatching(/^WASM_SERVE_SIGNATURE_(MISSING|INVALID)$/) }

/** JSON with the names of the formats, so that some values are deep in a parser. */
const NAMES = [
  ...['mediaType', 'verificationMaterial', 'publicKey', 'certificate', 'hint', 'rawBytes', 'tlogEntries'],
  ...[
    'dsseEnvelope',
    'messageSignature',
    'payload',
    'payloadType',
    'signatures',
    'sig',
    'keyid',
    'signature',
  ],
  ...[
    'messageDigest',
    'algorithm',
    'digest',
    'inclusionProof',
    'checkpoint',
    'envelope',
    'critical',
    'image',
    'type',
  ],
  ...['layers', 'annotations', 'size', '__proto__', 'constructor'],
]

const { json } = fc.letrec((tie) => ({
  leaf: fc.oneof(
    fc.constantFrom(null, true, '', BUNDLE_TYPE, 'application/vnd.in-toto+json', DIGEST, 'SHA2_256'),
    fc.string(),
    fc.base64String(),
    fc.double(),
  ),
  object: fc
    .array(fc.tuple(fc.constantFrom(...NAMES), tie('json')), { maxLength: 4 })
    .map(Object.fromEntries),
  json: fc.oneof({ depthSize: 'small' }, tie('leaf'), fc.array(tie('json'), { maxLength: 3 }), tie('object')),
}))

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  json.map((value) => Buffer.from(JSON.stringify(value) ?? '')),
)

test.each([
  '{"a":1,"a":1}',
  '{"a":1,"\\u0061":2}',
  '[{"b":{"a":":","c":1,"c":2}}]',
  '{"__proto__":1,"__proto__":2}',
])('a key that is given twice is refused: %s', (text) => {
  expect(parseJsonBytes(Buffer.from(text))).toEqual({ problem: expect.stringContaining('twice') })
})

test('whatever JSON has each key once is read', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(parseJsonBytes(Buffer.from(text))).toEqual({ value: JSON.parse(text) })
    }),
    { numRuns: runs(100) },
  )
})

test('arbitrary evidence is refused', async () => {
  const kind = fc.constantFrom('bundle', 'simple-signing', 'dsse', 'unreadable')
  const piece = fc.record({
    kind,
    origin: fc.constant(DIGEST),
    content: bytes,
    signature: fc.option(fc.base64String(), { nil: undefined }),
  })
  const policy = await trusted()
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 4 }), async (evidence) => {
      await expect(verifyArtifact('x', DIGEST, evidence, policy)).rejects.toMatchObject(REFUSED)
      expect(parseEvidence(renderEvidence(evidence))).toHaveLength(evidence.length)
    }),
    { numRuns: runs(150) },
  )
})

test('arbitrary bundles of files are refused', async () => {
  const policy = await trusted()
  await fc.assert(
    fc.asyncProperty(bytes, async (bundle) => {
      await expect(verifyFile('x', FILE, bundle, policy)).rejects.toMatchObject(REFUSED)
    }),
    { numRuns: runs(150) },
  )
})

test('arbitrary texts of a cache are no evidence, or evidence that is refused', async () => {
  const policy = await trusted()
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.string(),
        json.map((value) => JSON.stringify(value) ?? ''),
      ),
      async (text) => {
        const evidence = parseEvidence(text)
        if (evidence)
          await expect(verifyArtifact('x', DIGEST, evidence, policy)).rejects.toMatchObject(REFUSED)
      },
    ),
    { numRuns: runs(150) },
  )
})

test('arbitrary manifests of a registry yield evidence that is refused, or an error', async () => {
  const policy = await trusted()
  const manifest = fc.oneof(
    json,
    fc.record({
      layers: fc.array(
        fc.record({
          mediaType: fc.constantFrom(BUNDLE_TYPE, 'application/vnd.dsse.envelope.v1+json', 'a'),
          digest: fc.constant(DIGEST),
          size: fc.oneof(fc.nat(100), fc.double()),
          annotations: json,
        }),
        { maxLength: 3 },
      ),
    }),
  )
  await fc.assert(
    fc.asyncProperty(manifest, bytes, async (value, blob) => {
      const registry = hostileRegistry(Buffer.from(JSON.stringify(value) ?? ''), async () => blob, 1)
      const evidence = await collectEvidence(registry, REPOSITORY, DIGEST)
      await expect(verifyArtifact('x', DIGEST, evidence, policy)).rejects.toMatchObject(REFUSED)
    }),
    { numRuns: runs(150) },
  )
})

/** A registry with the same manifest for each referrer and tag. */
function hostileRegistry(
  manifest: Uint8Array,
  blob: Registry['blob'],
  referrers: number,
  size = 10,
): Registry {
  const mediaType = 'application/vnd.oci.image.manifest.v1+json'
  const descriptor: Descriptor = {
    mediaType,
    digest: DIGEST,
    size,
    artifactType: BUNDLE_TYPE,
    annotations: {},
  }
  return {
    ...registryWith({ digest: DIGEST, tags: {}, manifests: {}, blobs: {} }),
    resolve: async () => DIGEST,
    manifest: async () => ({ bytes: manifest, mediaType, digest: DIGEST }),
    blob,
    referrers: async () => Array.from({ length: referrers }, () => descriptor),
  }
}

const manifestWith = (layers: number, size: number) =>
  Buffer.from(
    JSON.stringify({ layers: Array(layers).fill({ mediaType: BUNDLE_TYPE, digest: DIGEST, size }) }),
  )

test.each([
  ['33 referrers', 33, manifestWith(0, 0), 10],
  ['33 layers', 1, manifestWith(33, 1), 10],
  ['4 referrers with 9 layers each', 4, manifestWith(9, 1), 10],
  ['a manifest larger than 1 MiB', 1, manifestWith(1, 1), 1_048_577],
  ['a manifest that is larger than announced', 1, Buffer.alloc(1_048_577, ' '), 10],
  ['a layer larger than 1 MiB', 1, manifestWith(1, 1_048_577), 10],
  ['5 layers of 1 MiB', 5, manifestWith(1, 1_048_576), 10],
])('more signatures than the limits permit are an error: %s', async (_case, referrers, manifest, size) => {
  const registry = hostileRegistry(manifest, async () => Buffer.alloc(1), referrers, size)
  await expect(collectEvidence(registry, REPOSITORY, DIGEST)).rejects.toMatchObject({
    code: 'WASM_SERVE_ARTIFACT_UNSUPPORTED',
  })
})

test('a registry that does not answer is an error, not missing evidence', async () => {
  const failed = new Error('unreachable')
  const healthy = hostileRegistry(manifestWith(1, 1), async () => Buffer.alloc(1), 1)
  for (const method of ['resolve', 'manifest', 'blob', 'referrers'] as const) {
    const registry = { ...healthy, [method]: () => Promise.reject(failed) }
    await expect(collectEvidence(registry, REPOSITORY, DIGEST), method).rejects.toBe(failed)
  }
})
