import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { printable } from '../../../src/platform/text.ts'
import { verifyItem } from '../../../src/plugin/trust/claim.ts'
import {
  collectEvidence,
  type Evidence,
  parseEvidence,
  renderEvidence,
} from '../../../src/plugin/trust/evidence.ts'
import { openTrust, type Policy, type TrustPolicy } from '../../../src/plugin/trust/trust.ts'
import { parseMaterial } from '../../../src/plugin/trust/verification-material.ts'
import { verifyArtifact, verifyFile } from '../../../src/plugin/trust/verify.ts'
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
} from '../../support/signatures.ts'

const SBOM = 'https://spdx.dev/Document'
const PROVENANCE = 'https://slsa.dev/provenance/v1'

async function policy(fields: TrustPolicy): Promise<Policy> {
  const found = (await openTrust({ '*': fields })).policyFor(undefined)
  if (!found) throw new Error('no policy')
  return found
}

const key = (type: string) => fixture(`keys/${type}.pub`)

const evidenceOf = (name: string) => collectEvidence(registryWith(snapshot(name)), REPOSITORY, DIGEST)

/** Evidence of one bundle. */
function bundled(bundle: unknown): Evidence {
  const content = Buffer.from(typeof bundle === 'string' ? bundle : JSON.stringify(bundle))
  return [{ kind: 'bundle', origin: DIGEST, content }]
}

const bundleOf = (name: string) => readFileSync(fixture(name))

describe('a signature by a key', () => {
  test.each(['p256', 'p384', 'rsa'])('of cosign 3 is accepted, with the attestations: %s', async (type) => {
    const verified = await verifyArtifact(
      'x',
      DIGEST,
      await evidenceOf(`cosign3-${type}`),
      await policy({ keys: [key(type)] }),
    )
    expect(verified).toEqual({
      signer: { kind: 'key', name: `${type}.pub`, keyId: expect.stringMatching(/^[\da-f]{64}$/) },
      format: 'bundle',
      predicateTypes: [PROVENANCE, SBOM],
    })
  })

  test.each(['p256', 'p384', 'rsa'])('of cosign 2 is accepted, with the attestations: %s', async (type) => {
    const verified = await verifyArtifact(
      'x',
      DIGEST,
      await evidenceOf(`cosign2-${type}`),
      await policy({ keys: [key(type)] }),
    )
    expect(verified).toMatchObject({
      signer: { kind: 'key', name: `${type}.pub` },
      format: 'cosign2',
      predicateTypes: [PROVENANCE, SBOM],
    })
  })

  test.each([
    'cosign3-ed25519',
    'cosign2-ed25519',
  ])('of an artifact with Ed25519ph is refused, and the message says so: %s', async (name) => {
    await expect(
      verifyArtifact('x', DIGEST, await evidenceOf(name), await policy({ keys: [key('ed25519')] })),
    ).rejects.toMatchObject({
      code: 'WASM_SERVE_SIGNATURE_INVALID',
      message: expect.stringContaining('Ed25519ph'),
    })
  })

  test.each([
    'p256',
    'p384',
    'ed25519',
    'rsa',
  ] as const)('that a library made is accepted: %s', async (type) => {
    const { privateKey, path, close } = makeKey(type)
    onTestFinished(close)
    const evidence = bundled(signStatement(privateKey, SIGNATURE_STATEMENT))
    const { signer } = await verifyArtifact('x', DIGEST, evidence, await policy({ keys: [path] }))
    expect(signer).toMatchObject({ kind: 'key', name: 'test.pub' })
  })

  test('is accepted by any key of the policy, and not by others', async () => {
    const evidence = await evidenceOf('cosign3-p256')
    const { signer } = await verifyArtifact(
      'x',
      DIGEST,
      evidence,
      await policy({ keys: [key('rsa'), key('p256')] }),
    )
    expect(signer).toMatchObject({ name: 'p256.pub' })
    const others = await policy({ keys: [key('rsa'), key('p384'), key('ed25519')] })
    await expect(verifyArtifact('x', DIGEST, evidence, others)).rejects.toMatchObject({
      code: 'WASM_SERVE_SIGNATURE_INVALID',
    })
  })

  test.each(['cosign3-p256', 'cosign2-p256'])('of another digest is refused: %s', async (name) => {
    const other = DIGEST.replace('9d', '9e')
    await expect(
      verifyArtifact('x', other, await evidenceOf(name), await policy({ keys: [key('p256')] })),
    ).rejects.toMatchObject({
      code: 'WASM_SERVE_SIGNATURE_INVALID',
      message: expect.stringContaining('another digest'),
    })
  })

  test('is missing if the registry shows none', async () => {
    const { tags, ...rest } = snapshot('cosign3-p256')
    const evidence = await collectEvidence(registryWith({ ...rest, tags: {} }), REPOSITORY, DIGEST)
    await expect(
      verifyArtifact('x', DIGEST, evidence, await policy({ keys: [key('p256')] })),
    ).rejects.toMatchObject({ code: 'WASM_SERVE_SIGNATURE_MISSING' })
    expect(Object.keys(tags)).toHaveLength(2)
  })

  test('is missing if there are only attestations', async () => {
    const { privateKey, path, close } = makeKey()
    onTestFinished(close)
    const evidence = bundled(signStatement(privateKey, { ...SIGNATURE_STATEMENT, predicateType: SBOM }))
    await expect(
      verifyArtifact('x', DIGEST, evidence, await policy({ keys: [path], attestations: [SBOM] })),
    ).rejects.toMatchObject({ code: 'WASM_SERVE_SIGNATURE_MISSING' })
  })

  test('of a file does not count for an artifact', async () => {
    const evidence = bundled(bundleOf('blob-p256.sigstore.json').toString())
    await expect(
      verifyArtifact('x', DIGEST, evidence, await policy({ keys: [key('p256')] })),
    ).rejects.toMatchObject({
      code: 'WASM_SERVE_SIGNATURE_INVALID',
      message: expect.stringContaining('sign-blob'),
    })
  })

  test('in a message shows at most three reasons, and no control character', async () => {
    const evidence = Array.from({ length: 5 }, () => bundled({ mediaType: 'x', '\u001b[31m': 1 })).flat()
    const { privateKey, path, close } = makeKey()
    onTestFinished(close)
    const signed = signStatement(privateKey, SIGNATURE_STATEMENT)
    const hostile = bundled({ ...signed, '\u001b[31m': 1 })
    const strict = await policy({ keys: [path] })
    const error: Error = await verifyArtifact('x', DIGEST, [...hostile, ...evidence], strict).then(
      () => new Error('accepted'),
      (error) => error,
    )
    expect(error.message).toMatch(/\\u001b.*and 3 more$/)
    expect(error.message).toBe(printable(error.message))
    expect(error.message).toContain(': it has the unknown field')
  })
})

describe('a required attestation', () => {
  test.each(['cosign3-p256', 'cosign2-p256'])('must be there: %s', async (name) => {
    const evidence = await evidenceOf(name)
    await verifyArtifact(
      'x',
      DIGEST,
      evidence,
      await policy({ keys: [key('p256')], attestations: [SBOM, PROVENANCE] }),
    )
    const strict = await policy({ keys: [key('p256')], attestations: [SBOM, 'https://slsa.dev/vsa/v1'] })
    await expect(verifyArtifact('x', DIGEST, evidence, strict)).rejects.toMatchObject({
      code: 'WASM_SERVE_ATTESTATION_MISSING',
    })
  })

  test('by another signer does not count and is not listed', async () => {
    const [ours, theirs] = [makeKey(), makeKey()]
    onTestFinished(() => {
      ours.close()
      theirs.close()
    })
    const attestation = { ...SIGNATURE_STATEMENT, predicateType: SBOM }
    const evidence = [
      ...bundled(signStatement(theirs.privateKey, attestation)),
      ...bundled(signStatement(ours.privateKey, SIGNATURE_STATEMENT)),
    ]
    const { predicateTypes } = await verifyArtifact(
      'x',
      DIGEST,
      evidence,
      await policy({ keys: [ours.path] }),
    )
    expect(predicateTypes).toEqual([])
    await expect(
      verifyArtifact('x', DIGEST, evidence, await policy({ keys: [ours.path], attestations: [SBOM] })),
    ).rejects.toMatchObject({ code: 'WASM_SERVE_ATTESTATION_MISSING' })
  })

  test.each([
    [1_024, 1],
    [1_025, 0],
  ])('with a type of %i characters counts or does not: %i', async (length, count) => {
    const { privateKey, path, close } = makeKey()
    onTestFinished(close)
    const predicateType = 'x'.repeat(length)
    const evidence = [
      ...bundled(signStatement(privateKey, { ...SIGNATURE_STATEMENT, predicateType })),
      ...bundled(signStatement(privateKey, SIGNATURE_STATEMENT)),
    ]
    const { predicateTypes } = await verifyArtifact('x', DIGEST, evidence, await policy({ keys: [path] }))
    expect(predicateTypes).toHaveLength(count)
  })

  test('that is a signature, stored as cosign 2 stores attestations, is none', async () => {
    const { privateKey, path, close } = makeKey()
    onTestFinished(close)
    const signature = signStatement(privateKey, SIGNATURE_STATEMENT)
    const content = Buffer.from(JSON.stringify(signature.dsseEnvelope))
    const evidence: Evidence = [{ kind: 'dsse', origin: DIGEST, content }, ...bundled(signature)]
    const verified = await verifyArtifact('x', DIGEST, evidence, await policy({ keys: [path] }))
    expect(verified.predicateTypes).toEqual([])
  })

  test('of another artifact does not count', async () => {
    const { privateKey, path, close } = makeKey()
    onTestFinished(close)
    const subject = [{ digest: { sha256: '0'.repeat(64) } }]
    const evidence = [
      ...bundled(signStatement(privateKey, { ...SIGNATURE_STATEMENT, predicateType: SBOM, subject })),
      ...bundled(signStatement(privateKey, SIGNATURE_STATEMENT)),
    ]
    await expect(
      verifyArtifact('x', DIGEST, evidence, await policy({ keys: [path], attestations: [SBOM] })),
    ).rejects.toMatchObject({ code: 'WASM_SERVE_ATTESTATION_MISSING' })
  })
})

describe('a signature by an identity', () => {
  const root = fixture('trusted-root.json')
  const bundle = (name: string) => bundled(bundleOf(`keyless-${name}.json`).toString())

  test('is accepted, with the attestations', async () => {
    const evidence = [...bundle('signature'), ...bundle('provenance')]
    const strict = await policy({ ...KEYLESS, trustedRoot: root, attestations: [PROVENANCE] })
    expect(await verifyArtifact('x', DIGEST, evidence, strict)).toEqual({
      signer: { kind: 'identity', ...KEYLESS },
      format: 'bundle',
      predicateTypes: [PROVENANCE],
    })
  })

  test('may end with any text after a "*"', async () => {
    const identity = 'https://github.com/acme/hello/.github/workflows/release.yml@*'
    const { signer } = await verifyArtifact(
      'x',
      DIGEST,
      bundle('signature'),
      await policy({ ...KEYLESS, identity, trustedRoot: root }),
    )
    expect(signer).toEqual({ kind: 'identity', ...KEYLESS })
  })

  test.each([
    ['another identity', 'other-identity', {}],
    ['another issuer', 'other-issuer', {}],
    ['a prefix of the identity', 'signature', { identity: KEYLESS.identity.slice(0, -1) }],
    [
      'an identity that is a regular expression',
      'signature',
      { identity: KEYLESS.identity.replace('.git', '..it') },
    ],
    ['another wildcard', 'signature', { identity: 'https://github.com/evil/*' }],
    ['another trusted root', 'signature', { trustedRoot: fixture('trusted-root-other.json') }],
    ['a bundle of a file', 'blob', {}],
  ])('is refused for %s', async (_case, name, fields) => {
    const strict = await policy({ ...KEYLESS, trustedRoot: root, ...fields })
    await expect(verifyArtifact('x', DIGEST, bundle(name), strict)).rejects.toMatchObject({
      code: 'WASM_SERVE_SIGNATURE_INVALID',
    })
  })

  test('is refused without the entry of a log', async () => {
    const changed = JSON.parse(bundleOf('keyless-signature.json').toString())
    changed.verificationMaterial.tlogEntries = []
    await expect(
      verifyArtifact('x', DIGEST, bundled(changed), await policy({ ...KEYLESS, trustedRoot: root })),
    ).rejects.toMatchObject({ code: 'WASM_SERVE_SIGNATURE_INVALID' })
  })

  test('and by a key do not replace each other', async () => {
    const keyOnly = await policy({ keys: [key('p256')] })
    const identityOnly = await policy({ ...KEYLESS, trustedRoot: root })
    const both = await policy({ keys: [key('p256')], ...KEYLESS, trustedRoot: root })
    const refused = { code: 'WASM_SERVE_SIGNATURE_INVALID' }
    const byKey = await evidenceOf('cosign3-p256')
    await expect(verifyArtifact('x', DIGEST, bundle('signature'), keyOnly)).rejects.toMatchObject(refused)
    await expect(verifyArtifact('x', DIGEST, byKey, identityOnly)).rejects.toMatchObject(refused)
    expect((await verifyArtifact('x', DIGEST, byKey, both)).signer.kind).toBe('key')
    expect((await verifyArtifact('x', DIGEST, bundle('signature'), both)).signer.kind).toBe('identity')
  })

  test("of Sigstore's public instance is verified with its trusted root", async () => {
    const content = bundleOf('sigstore-attestation.json')
    const digest = 'sha256:732112270d7e59418a8c080b134b24cabd67d250d0d0147a97ed95ba5c280aa4'
    const piece = { kind: 'bundle', origin: digest, content } as const
    const issuer = 'https://github.com/login/oauth'
    const identity = 'other@example.com'
    const verify = async (root: string) =>
      verifyItem(piece, digest, await policy({ issuer, identity, trustedRoot: fixture(root) }))
    // Everything but the identity is verified before it is compared.
    expect(await verify('sigstore-trusted-root.json')).toEqual({
      problem: expect.stringMatching(/^its identity is /),
    })
    expect(await verify('trusted-root.json')).not.toEqual({
      problem: expect.stringMatching(/^its identity is /),
    })
  })

  test('of a file is accepted', async () => {
    const strict = await policy({ ...KEYLESS, trustedRoot: root })
    const { signer } = await verifyFile('x', FILE, bundleOf('keyless-blob.json'), strict)
    expect(signer).toEqual({ kind: 'identity', ...KEYLESS })
    await expect(
      verifyFile('x', Buffer.from('other'), bundleOf('keyless-blob.json'), strict),
    ).rejects.toMatchObject({
      code: 'WASM_SERVE_SIGNATURE_INVALID',
    })
  })
})

describe('a signature of a file', () => {
  test.each([
    'blob-p256',
    'blob-p384',
    'blob-ed25519',
    'blob-rsa',
    'cosign2-blob-p256',
  ])('is accepted for that file only: %s', async (name) => {
    const bundle = bundleOf(`${name}.sigstore.json`)
    const type = name.split('-').at(-1) ?? ''
    const trusted = await policy({ keys: [key(type)] })
    expect(await verifyFile('x', FILE, bundle, trusted)).toMatchObject({
      signer: { kind: 'key', name: `${type}.pub` },
      format: 'bundle',
      predicateTypes: [],
    })
    const refused = { code: 'WASM_SERVE_SIGNATURE_INVALID' }
    await expect(verifyFile('x', Buffer.from('other'), bundle, trusted)).rejects.toMatchObject(refused)
    const others = ['p256', 'p384', 'ed25519', 'rsa'].filter((other) => other !== type)
    await expect(
      verifyFile('x', FILE, bundle, await policy({ keys: others.map(key) })),
    ).rejects.toMatchObject(refused)
  })

  test('may have attestations in other lines', async () => {
    const lines = ['attest-blob-p256', 'blob-p256'].map((name) =>
      bundleOf(`${name}.sigstore.json`).toString(),
    )
    const strict = await policy({ keys: [key('p256')], attestations: [PROVENANCE] })
    const verified = await verifyFile('x', FILE, Buffer.from(`${lines.join('\n')}\n`), strict)
    expect(verified.predicateTypes).toEqual([PROVENANCE])
    await expect(verifyFile('x', FILE, Buffer.from(lines[1] ?? ''), strict)).rejects.toMatchObject({
      code: 'WASM_SERVE_ATTESTATION_MISSING',
    })
  })

  test.each([32, 33])('is in one of 32 lines at most, beside empty ones: %i', async (count) => {
    const line = bundleOf('blob-p256.sigstore.json').toString().trim()
    const file = Buffer.from(`${Array<string>(count).fill(line).join('\n')}\n \n`)
    const verified = verifyFile('x', FILE, file, await policy({ keys: [key('p256')] }))
    if (count === 32) expect((await verified).signer).toMatchObject({ kind: 'key' })
    else await expect(verified).rejects.toMatchObject({ code: 'WASM_SERVE_SIGNATURE_INVALID' })
  })

  test('is no attestation of it', async () => {
    await expect(
      verifyFile(
        'x',
        FILE,
        bundleOf('attest-blob-p256.sigstore.json'),
        await policy({ keys: [key('p256')] }),
      ),
    ).rejects.toMatchObject({ code: 'WASM_SERVE_SIGNATURE_MISSING' })
  })
})

test.each([
  [20, { hasCertificate: false }],
  [21, { problem: 'an entry of its log has a number of more than 20 digits' }],
])('an entry of a log with a number of %i digits: %j', (digits, expected) => {
  const entry = { logIndex: '1'.repeat(digits) }
  expect(parseMaterial({ publicKey: { hint: 'a' }, tlogEntries: [entry] })).toEqual(expected)
})

describe('evidence', () => {
  test.each([
    [undefined, 3],
    ['application/vnd.oci.empty.v1+json', 3],
    ['application/spdx+json', 0],
  ])('is what refers to the artifact with the type %s: %i bundles', async (artifactType, count) => {
    const registry = registryWith(snapshot('cosign3-p256'))
    const referrers: typeof registry.referrers = async (...args) =>
      (await registry.referrers(...args)).map((each) => ({ ...each, artifactType }))
    expect(await collectEvidence({ ...registry, referrers }, REPOSITORY, DIGEST)).toHaveLength(count)
  })

  test.each(['cosign3-p256', 'cosign2-p256'])('survives a cache: %s', async (name) => {
    const evidence = await evidenceOf(name)
    const kept = parseEvidence(renderEvidence(evidence)) ?? []
    expect(kept.map((piece) => ({ ...piece, content: Buffer.from(piece.content) }))).toEqual(
      evidence.map((piece) => ({ ...piece, content: Buffer.from(piece.content) })),
    )
    await verifyArtifact('x', DIGEST, kept, await policy({ keys: [key('p256')] }))
  })

  test.each([
    '',
    '{}',
    '[{}]',
    '[1]',
    '[{"kind":"other","origin":"a","content":""}]',
    '[{"kind":"dsse","origin":1,"content":""}]',
    '[{"kind":"dsse","origin":"a"}]',
    '[{"kind":"dsse","origin":"a","content":"*"}]',
    '[{"kind":"dsse","origin":"a","content":"","signature":1}]',
  ])('of a broken cache is none: %s', (text) => {
    expect(parseEvidence(text)).toBeUndefined()
  })
})

describe('a trust setting', () => {
  const invalid = { code: 'WASM_SERVE_TRUST_INVALID' }

  function folderWith(files: Record<string, string>): string {
    const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-trust-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
    return folder
  }

  test('finds the longest prefix, at slashes', async () => {
    const one = { keys: [key('p256')] }
    const { policyFor } = await openTrust({
      'ghcr.io/acme/': one,
      'ghcr.io/acme/tools/scan': one,
      'index.docker.io/acme': one,
      'GHCR.io': one,
      'oci://localhost:5000/team': one,
      'https://Plugins.example:443/team/': one,
    })
    const names = {
      'ghcr.io/acme/hello': 'ghcr.io/acme/',
      'ghcr.io/acme': 'ghcr.io/acme/',
      'ghcr.io/acme-evil/hello': 'GHCR.io',
      'ghcr.io/acme/tools/scan': 'ghcr.io/acme/tools/scan',
      'ghcr.io/acme/tools/scanner': 'ghcr.io/acme/',
      'ghcr.io.evil.example/acme/hello': undefined,
      'docker.io/acme/hello': 'index.docker.io/acme',
      'localhost:5000/team/a': 'oci://localhost:5000/team',
      'https://plugins.example/team/a.wasm?v=1': 'https://Plugins.example:443/team/',
      'https://plugins.example/team/../other/a.wasm': undefined,
      'https://plugins.example/team/%2e%2e/other/a.wasm': undefined,
      'https://plugins.example/teams/a.wasm': undefined,
      'http://plugins.example/team/a.wasm': undefined,
      'https://plugins.example:8443/team/a.wasm': undefined,
    }
    const found = Object.keys(names).map((name) => [name, policyFor(name)?.name])
    expect(Object.fromEntries(found)).toEqual(names)
    expect(policyFor(undefined)).toBeUndefined()
  })

  test('with "*" applies to everything else, and to files', async () => {
    const { policyFor } = await openTrust({
      '*': { keys: [key('p256')] },
      'ghcr.io': { keys: [key('rsa')] },
    })
    expect(
      [undefined, 'quay.io/a', 'https://a.example/b', 'ghcr.io/a'].map((name) => policyFor(name)?.name),
    ).toEqual(['*', '*', '*', 'ghcr.io'])
  })

  test.each([
    'ghcr.io/acme:1',
    'ghcr.io/acme@sha256:00',
    'ghcr.io/Acme',
    'ghcr.io//acme',
    'ftp://a.example/x',
    'https://user:pass@a.example/',
    'https://user@a.example/',
    'https://a.example/?a',
    'https://',
    '',
    '/',
    'a*',
  ])('for the prefix %j is refused', async (prefix) => {
    await expect(openTrust({ [prefix]: { keys: [key('p256')] } })).rejects.toMatchObject(invalid)
  })

  test('for the same prefix twice is refused', async () => {
    const one = { keys: [key('p256')] }
    await expect(openTrust({ 'ghcr.io/a': one, 'ghcr.io/a/': one })).rejects.toMatchObject(invalid)
  })

  test.each<[string, TrustPolicy]>([
    ['nothing', {}],
    ['no key', { keys: [] }],
    ['only an issuer', { issuer: KEYLESS.issuer, trustedRoot: fixture('trusted-root.json') }],
    ['only an identity', { identity: KEYLESS.identity, trustedRoot: fixture('trusted-root.json') }],
    ['an identity without trusted root', KEYLESS],
    ['a key and a root', { keys: [key('p256')], trustedRoot: fixture('trusted-root.json') }],
    ['any domain', { ...KEYLESS, identity: '@*', trustedRoot: fixture('trusted-root.json') }],
    ['any identity', { ...KEYLESS, identity: '*', trustedRoot: fixture('trusted-root.json') }],
    ['any host', { ...KEYLESS, identity: 'https://*', trustedRoot: fixture('trusted-root.json') }],
    [
      'an open end',
      { ...KEYLESS, identity: 'https://github.com/acme*', trustedRoot: fixture('trusted-root.json') },
    ],
    [
      'a "*" in the middle',
      { ...KEYLESS, identity: 'https://*/acme', trustedRoot: fixture('trusted-root.json') },
    ],
    ['a missing root', { ...KEYLESS, trustedRoot: fixture('missing.json') }],
    ['a root that is a key', { ...KEYLESS, trustedRoot: key('p256') }],
    ['a root that is a bundle', { ...KEYLESS, trustedRoot: fixture('keyless-signature.json') }],
    ['too many keys', { keys: Array.from({ length: 17 }, () => key('p256')) }],
  ])('with %s is refused', async (_case, fields) => {
    await expect(openTrust({ '*': fields })).rejects.toMatchObject(invalid)
  })

  test.each([
    'certificateAuthorities',
    'tlogs',
    'ctlogs',
  ])('with a root that has no %s is refused, and one is enough', async (field) => {
    const root: Record<string, unknown[]> = JSON.parse(readFileSync(fixture('trusted-root.json'), 'utf8'))
    expect(root[field]).toHaveLength(1)
    const folder = folderWith({
      'one.json': JSON.stringify(root),
      'none.json': JSON.stringify({ ...root, [field]: [] }),
    })
    const openWith = (trustedRoot: string) => openTrust({ '*': { ...KEYLESS, trustedRoot } }, { folder })
    await openWith('one.json')
    await expect(openWith('none.json')).rejects.toMatchObject(invalid)
  })

  test('refuses other files than public keys, and names them', async () => {
    const spki = { type: 'spki', format: 'pem' } as const
    const pkcs8 = { type: 'pkcs8', format: 'pem' } as const
    const pem = (make: { publicKey: { export(options: typeof spki): string | Buffer } }) =>
      make.publicKey.export(spki).toString()
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
    const files: Record<string, string> = {
      'missing.pub': '',
      'empty.pub': '',
      'text.pub': 'ssh-ed25519 AAAA',
      'broken.pub': '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n',
      'private.pub': privateKey.export(pkcs8).toString(),
      'cosign.key':
        '-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n',
      'two.pub': publicKey.export(spki).toString().repeat(2),
      'p521.pub': pem(generateKeyPairSync('ec', { namedCurve: 'secp521r1' })),
      'k1.pub': pem(generateKeyPairSync('ec', { namedCurve: 'secp256k1' })),
      'x25519.pub': pem(generateKeyPairSync('x25519')),
      'rsa1024.pub': pem(generateKeyPairSync('rsa', { modulusLength: 1_024 })),
      'large.pub': `${publicKey.export(spki)}${' '.repeat(65_536)}`,
    }
    const folder = folderWith(files)
    rmSync(join(folder, 'missing.pub'))
    for (const name of Object.keys(files))
      await expect(openTrust({ '*': { keys: [name] } }, { folder }), name).rejects.toMatchObject({
        ...invalid,
        message: expect.stringContaining(join(folder, name)),
      })
    await expect(openTrust({ '*': { keys: ['cosign.key'] } }, { folder })).rejects.toThrow('private key')
  })

  test.each([
    [2_040, false],
    [2_048, true],
    [8_192, true],
    [8_200, false],
  ])('accepts RSA keys of 2,048 to 8,192 bits: %i, %s', async (bits, isAccepted) => {
    const n = Buffer.alloc(bits / 8, 0xff).toString('base64url')
    const made = createPublicKey({ key: { kty: 'RSA', n, e: 'AQAB' }, format: 'jwk' })
    const folder = folderWith({ 'rsa.pub': made.export({ type: 'spki', format: 'pem' }).toString() })
    const opened = openTrust({ '*': { keys: ['rsa.pub'] } }, { folder })
    if (isAccepted) await opened
    else await expect(opened).rejects.toThrow(`the RSA key has ${bits} bits`)
  })

  test('has a digest over everything that decides', async () => {
    const root = { trustedRoot: fixture('trusted-root.json') }
    const different: TrustPolicy[] = [
      { keys: [key('p256')] },
      { keys: [key('rsa')] },
      { keys: [key('p256'), key('rsa')] },
      { keys: [key('p256')], attestations: [SBOM] },
      { ...KEYLESS, ...root },
      { ...KEYLESS, trustedRoot: fixture('trusted-root-other.json') },
      { ...KEYLESS, ...root, issuer: 'https://other.example' },
      { ...KEYLESS, ...root, identity: 'a@example.com' },
      { ...KEYLESS, ...root, keys: [key('p256')] },
    ]
    const digests = await Promise.all(different.map(async (fields) => (await policy(fields)).digest))
    expect(new Set(digests).size).toBe(different.length)
    const reordered = await policy({ keys: [key('rsa'), key('p256')] })
    expect(reordered.digest).toBe(digests[2])
  })
})
