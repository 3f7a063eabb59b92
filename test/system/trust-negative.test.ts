import { sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { collectEvidence, type Evidence, type EvidenceItem } from '../../src/plugin/trust/evidence.ts'
import { openTrust, type Policy, type TrustPolicy } from '../../src/plugin/trust/trust.ts'
import { verifyArtifact, verifyFile } from '../../src/plugin/trust/verify.ts'
import { alterations } from '../support/alterations.ts'
import {
  DIGEST,
  FILE,
  fixture,
  KEYLESS,
  makeKey,
  REPOSITORY,
  registryWith,
  SIGNATURE_STATEMENT,
  signStatement,
  snapshot,
} from '../support/signatures.ts'

/* Each part of each format is changed once. Nothing but the listed changes, which have no meaning, is accepted. */

const SBOM = 'https://spdx.dev/Document'

async function policy(fields: TrustPolicy): Promise<Policy> {
  const found = (await openTrust({ '*': fields })).policyFor(undefined)
  if (!found) throw new Error('no policy')
  return found
}

const key = (type: string) => fixture(`keys/${type}.pub`)

/** ChunkedBytes of a fixture that are signatures, not attestations. */
async function signatureOf(name: string): Promise<EvidenceItem> {
  const pieces = await collectEvidence(registryWith(snapshot(name)), REPOSITORY, DIGEST)
  for (const piece of pieces) {
    const trusted = await policy({ keys: [key(name.split('-')[1] ?? '')] })
    if (await accepts([piece], trusted)) return piece
  }
  throw new Error('no signature')
}

async function accepts(evidence: Evidence, trusted: Policy, digest = DIGEST): Promise<boolean> {
  return isAccepted(verifyArtifact('x', digest, evidence, trusted))
}

/** Any other error than a refusal fails the test. */
async function isAccepted(verification: Promise<unknown>): Promise<boolean> {
  try {
    await verification
    return true
  } catch (error) {
    expect(error).toMatchObject({ code: expect.stringMatching(REFUSED) })
    return false
  }
}

const REFUSED = /^WASM_SERVE_(SIGNATURE_(MISSING|INVALID)|ATTESTATION_MISSING)$/

/** The names of alterations that are accepted. */
async function accepted(value: unknown, verify: (changed: unknown) => Promise<boolean>): Promise<string[]> {
  const names: string[] = []
  let tried = 0
  for (const { name, value: changed } of alterations(value)) {
    tried++
    if (await verify(changed)) names.push(name)
  }
  expect(tried).toBeGreaterThan(10)
  return names
}

/** Changes of fields that a verification with a key does not use. */
const HINTS =
  /^(verificationMaterial\.publicKey\.hint|verificationMaterial\.publicKey with a field|dsseEnvelope\.signatures\.0\.keyid)/

const encode = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))

const decode = (piece: EvidenceItem) => JSON.parse(Buffer.from(piece.content).toString())

test.each(['p256', 'p384', 'rsa'])('each field of a bundle of cosign 3 counts: %s', async (type) => {
  const piece = await signatureOf(`cosign3-${type}`)
  const trusted = await policy({ keys: [key(type)] })
  const names = await accepted(decode(piece), (changed) =>
    accepts([{ ...piece, content: encode(changed) }], trusted),
  )
  // The hint only names a key: each key of the policy is tried.
  expect(names.filter((name) => !HINTS.test(name))).toEqual([])
})

test('each field of a signed statement counts, also before it was signed', async () => {
  const { privateKey, path, close } = makeKey()
  onTestFinished(close)
  const trusted = await policy({ keys: [path] })
  const bundle = signStatement(privateKey, SIGNATURE_STATEMENT)
  expect(await accepts([{ kind: 'bundle', origin: DIGEST, content: encode(bundle) }], trusted)).toBe(true)
  const unsigned = await accepted(SIGNATURE_STATEMENT, (changed) => {
    const payload = encode(changed).toString('base64')
    const envelope = { ...Object(bundle.dsseEnvelope), payload }
    return accepts(
      [{ kind: 'bundle', origin: DIGEST, content: encode({ ...bundle, dsseEnvelope: envelope }) }],
      trusted,
    )
  })
  expect(unsigned).toEqual([])
  const signed = await accepted(SIGNATURE_STATEMENT, (changed) =>
    accepts(
      [{ kind: 'bundle', origin: DIGEST, content: encode(signStatement(privateKey, changed)) }],
      trusted,
    ),
  )
  expect(signed).toEqual([
    ' with a field', // in-toto has further fields
    'subject doubled', // one of the subjects must match
    'subject.0 with a field', // such as name and annotations
    'subject.0.digest with a field', // further algorithms
    'predicate removed', // the predicate of a signature has no meaning
    'predicate null',
    'predicate array',
    'predicate with a field',
  ])
})

test.each([
  'application/vnd.in-toto+json;v=1',
  'application/json',
  '',
  'text/plain',
])('a statement with another payload type is refused, even if it was signed: %j', async (payloadType) => {
  const { privateKey, path, close } = makeKey()
  onTestFinished(close)
  const bundle = signStatement(privateKey, SIGNATURE_STATEMENT, { payloadType })
  expect(
    await accepts(
      [{ kind: 'bundle', origin: DIGEST, content: encode(bundle) }],
      await policy({ keys: [path] }),
    ),
  ).toBe(false)
})

test('a statement may have 1024 subjects', async () => {
  const { privateKey, path, close } = makeKey()
  onTestFinished(close)
  const trusted = await policy({ keys: [path] })
  const [subject] = SIGNATURE_STATEMENT.subject
  const others = Array.from({ length: 1_023 }, () => ({ digest: { sha256: '0' } }))
  const accept = (subjects: unknown[]) => {
    const content = encode(signStatement(privateKey, { ...SIGNATURE_STATEMENT, subject: subjects }))
    return accepts([{ kind: 'bundle', origin: DIGEST, content }], trusted)
  }
  expect(await accept([...others, subject])).toBe(true)
  expect(await accept([...others, subject, subject])).toBe(false)
})

test('a statement of version 0.1 is accepted for attestations only', async () => {
  const { privateKey, path, close } = makeKey()
  onTestFinished(close)
  const old = { ...SIGNATURE_STATEMENT, _type: 'https://in-toto.io/Statement/v0.1' }
  const piece = (statement: unknown): EvidenceItem => ({
    kind: 'bundle',
    origin: DIGEST,
    content: encode(signStatement(privateKey, statement)),
  })
  expect(await accepts([piece(old)], await policy({ keys: [path] }))).toBe(false)
  const strict = await policy({ keys: [path], attestations: [SBOM] })
  expect(await accepts([piece(SIGNATURE_STATEMENT), piece({ ...old, predicateType: SBOM })], strict)).toBe(
    true,
  )
})

test.each([
  ['SHA-1', 'p256', 'sha1'],
  ['SHA-512', 'p256', 'sha512'],
  ['SHA-384 with P-256', 'p256', 'sha384'],
  ['SHA-512 with P-384', 'p384', 'sha512'],
  ['SHA-512 with RSA', 'rsa', 'sha512'],
] as const)('a signature with another hash is refused: %s', async (_case, type, hash) => {
  const { privateKey, path, close } = makeKey(type)
  onTestFinished(close)
  const bundle = signStatement(privateKey, SIGNATURE_STATEMENT, { hash })
  expect(
    await accepts(
      [{ kind: 'bundle', origin: DIGEST, content: encode(bundle) }],
      await policy({ keys: [path] }),
    ),
  ).toBe(false)
})

test.each([
  'p256',
  'p384',
  'rsa',
])('each byte of a signature, and of its payload, counts: %s', async (type) => {
  const piece = await signatureOf(`cosign3-${type}`)
  const trusted = await policy({ keys: [key(type)] })
  const bundle = decode(piece)
  const { payload, payloadType, signatures } = bundle.dsseEnvelope
  const flipped = async (text: string, build: (changed: string) => unknown) => {
    const bytes = Buffer.from(text, 'base64')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (bytes[at] ?? 0) ^ (1 << (at % 8))
      const dsseEnvelope = build(changed.toString('base64'))
      const content = encode({ ...bundle, dsseEnvelope })
      expect(await accepts([{ ...piece, content }], trusted), `byte ${at}`).toBe(false)
    }
  }
  await flipped(signatures[0].sig, (sig) => ({ payload, payloadType, signatures: [{ sig }] }))
  if (type === 'p256') await flipped(payload, (changed) => ({ payload: changed, payloadType, signatures }))
})

test.each(['p256', 'p384', 'rsa'])('each part of a signature of cosign 2 counts: %s', async (type) => {
  const piece = await signatureOf(`cosign2-${type}`)
  const trusted = await policy({ keys: [key(type)] })
  const payload = await accepted(decode(piece), (changed) =>
    accepts([{ ...piece, content: encode(changed) }], trusted),
  )
  expect(payload).toEqual([])
  const signature = await accepted([piece.signature, 'x', 'y', 'z'], (changed) => {
    const [text]: unknown[] = Array.isArray(changed) ? changed : []
    return accepts([{ ...piece, signature: typeof text === 'string' ? text : undefined }], trusted)
  })
  expect(signature.filter((name) => name.startsWith('0'))).toEqual([])
})

test('each field of a signed payload of cosign 2 counts', async () => {
  const { privateKey, path, close } = makeKey()
  onTestFinished(close)
  const trusted = await policy({ keys: [path] })
  const original = decode(await signatureOf('cosign2-p256'))
  const names = await accepted(original, (changed) => {
    const content = encode(changed)
    const signature = sign('sha256', content, privateKey).toString('base64')
    return accepts([{ kind: 'simple-signing', origin: DIGEST, content, signature }], trusted)
  })
  // The reference may be that of another registry, and `optional` has what a user added.
  expect(names.filter((name) => !/^(optional|critical\.identity)\b/.test(name))).toEqual([
    ' with a field',
    'critical with a field',
    'critical.image with a field',
  ])
})

test('what a registry names as evidence of another kind is refused', async () => {
  const trusted = await policy({ keys: [key('p256')] })
  const [bundle, simple] = [await signatureOf('cosign3-p256'), await signatureOf('cosign2-p256')]
  for (const kind of ['simple-signing', 'dsse', 'unreadable'] as const)
    expect(await accepts([{ ...bundle, kind }], trusted)).toBe(false)
  for (const kind of ['bundle', 'dsse', 'unreadable'] as const)
    expect(await accepts([{ ...simple, kind }], trusted)).toBe(false)
  const envelope = encode(decode(bundle).dsseEnvelope)
  expect(await accepts([{ kind: 'dsse', origin: DIGEST, content: envelope }], trusted)).toBe(false)
})

test.each([
  'cosign3-p256',
  'cosign2-p256',
])('each field of what a registry has counts, or has no meaning: %s', async (name) => {
  const trusted = await policy({ keys: [key('p256')], attestations: [SBOM] })
  const original = snapshot(name)
  const manifests = Object.entries(original.manifests).filter(([digest]) => digest !== DIGEST)
  let refused = 0
  for (const [digest, { mediaType, text }] of manifests)
    for (const { value } of alterations(JSON.parse(text))) {
      const changed = { ...original.manifests, [digest]: { mediaType, text: JSON.stringify(value) } }
      const registry = registryWith({ ...original, manifests: changed })
      const evidence = await collectEvidence(registry, REPOSITORY, DIGEST).catch((error) => {
        expect(error).toMatchObject({ code: expect.stringMatching(/^WASM_SERVE_(REGISTRY|ARTIFACT)_/) })
        return []
      })
      // Manifests are not signed: a change can only hide a signature, never make one.
      if (!(await accepts(evidence, trusted))) refused++
      expect(await accepts(evidence, trusted, DIGEST.replace('9d', '9e'))).toBe(false)
    }
  expect(refused).toBeGreaterThan(20)
})

test.each([
  'blob-p256',
  'blob-p384',
  'blob-ed25519',
  'blob-rsa',
])('each field of a bundle of a file counts: %s', async (name) => {
  const trusted = await policy({ keys: [key(name.split('-')[1] ?? '')] })
  const bundle = JSON.parse(readFileSync(fixture(`${name}.sigstore.json`), 'utf8'))
  const names = await accepted(bundle, (changed) =>
    isAccepted(verifyFile('x', FILE, encode(changed), trusted)),
  )
  // The digest of the file in the bundle is optional.
  const optional = /^messageSignature\.messageDigest removed$/
  expect(names.filter((name) => !HINTS.test(name) && !optional.test(name))).toEqual([])
})

test('each field of a bundle with a certificate counts', async () => {
  const trusted = await policy({ ...KEYLESS, trustedRoot: fixture('trusted-root.json') })
  const bundle = JSON.parse(readFileSync(fixture('keyless-signature.json'), 'utf8'))
  const names = await accepted(bundle, (changed) =>
    accepts([{ kind: 'bundle', origin: DIGEST, content: encode(changed) }], trusted),
  )
  const meaningless = [
    / with a field$/, // @sigstore/verify reads the fields that it knows
    / extended$/, // after the padding of base64, or after the last line of a checkpoint
    /^verificationMaterial\.tlogEntries\.0\.inclusionProof\.(rootHash|treeSize) /, // the signed checkpoint has both
    /^verificationMaterial\.timestampVerificationData /, // there are none
  ]
  expect(names.filter((name) => !meaningless.some((pattern) => pattern.test(name)))).toEqual([])
  expect(
    names.some((name) => /certificate|dsseEnvelope/.test(name) && !/ (with a field|extended)$/.test(name)),
  ).toBe(false)
})

test.each([
  [
    'a pattern as the name in a checkpoint',
    { checkpoint: { envelope: 'a\n1\nb\n\n\u2014 ^((.+)+)+% AAAA\n' } },
  ],
  ['a long checkpoint', { checkpoint: { envelope: `a\n1\nb\n\n${'a'.repeat(8_192)}` } }],
  [
    'a long size in a checkpoint',
    { checkpoint: { envelope: `a\n${'9'.repeat(5_000)}\nb\n\n\u2014 a AAAA\n` } },
  ],
  ['a long index', { logIndex: '9'.repeat(100_000) }],
  ['many hashes', { hashes: Array.from({ length: 65 }, () => '') }],
])('a log entry is refused before it could occupy the event loop: %s', async (_case, fields) => {
  const trusted = await policy({ ...KEYLESS, trustedRoot: fixture('trusted-root.json') })
  const bundle = JSON.parse(readFileSync(fixture('keyless-signature.json'), 'utf8'))
  const [entry] = bundle.verificationMaterial.tlogEntries
  const changed = structuredClone(bundle)
  changed.verificationMaterial.tlogEntries = [
    { ...entry, inclusionProof: { ...entry.inclusionProof, ...fields } },
  ]
  await expect(
    verifyArtifact('x', DIGEST, [{ kind: 'bundle', origin: DIGEST, content: encode(changed) }], trusted),
  ).rejects.toThrow('an entry of its log has')
  const many = structuredClone(bundle)
  many.verificationMaterial.tlogEntries = Array.from({ length: 5 }, () => entry)
  await expect(
    verifyArtifact('x', DIGEST, [{ kind: 'bundle', origin: DIGEST, content: encode(many) }], trusted),
  ).rejects.toThrow('more than 4')
})
