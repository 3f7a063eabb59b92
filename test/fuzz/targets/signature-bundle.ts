import { readFileSync } from 'node:fs'
import { hasOwnCode } from '../../../src/errors/failure.ts'
import type { EvidenceItem } from '../../../src/plugin/trust/evidence.ts'
import { openTrust, type Policy } from '../../../src/plugin/trust/trust.ts'
import { verifyArtifact, verifyFile } from '../../../src/plugin/trust/verify.ts'
import { DIGEST, FILE, fixture, KEYLESS, snapshot } from '../../support/signatures.ts'
import type { FuzzTarget } from '../target.ts'

/** Far more than an input of 64 KiB takes. */
const MAX_CPU_MS = 500

const TYPES = ['p256', 'p384', 'ed25519', 'rsa']

const KINDS = ['bundle', 'dsse', 'simple-signing'] as const

/** Signed bytes in the fixtures, as base64: payloads of envelopes, and payloads of cosign 2. */
const SIGNED = new Set<string>()

/**
 * Any bytes that a registry may return as a signature, an attestation or a detached bundle are refused with an error of
 * the project, unless they contain what one of the trusted signers signed. The first byte is the kind.
 */
export const target: FuzzTarget = {
  name: 'signature-bundle',

  *seeds() {
    for (const type of TYPES) {
      for (const name of [`cosign3-${type}`, `cosign2-${type}`])
        for (const text of Object.values(snapshot(name).blobs))
          yield seed(text.includes('payload') ? 0 : 2, text)
      yield seed(3, readFileSync(fixture(`blob-${type}.sigstore.json`)))
    }
    for (const text of Object.values(snapshot('cosign2-p256').blobs)) yield seed(1, text)
    for (const name of ['signature', 'provenance', 'other-identity'])
      yield seed(0, readFileSync(fixture(`keyless-${name}.json`)))
    yield seed(3, readFileSync(fixture('keyless-blob.json')))
    for (const text of ['', '{', 'null', '[]', '{"mediaType":1}', '\ufeff{}']) yield seed(0, text)
  },

  async run(input) {
    const policy = await openedPolicy()
    const [kind = 0] = input
    const content = input.subarray(1)
    const start = process.cpuUsage()
    const result = await verify(kind % (KINDS.length + 1), content, policy)
    const { user, system } = process.cpuUsage(start)
    if ((user + system) / 1_000 > MAX_CPU_MS) throw new Error(`it took ${(user + system) / 1_000} ms`)
    return result
  },
}

function seed(kind: number, text: Uint8Array | string): Uint8Array {
  return Buffer.concat([Uint8Array.of(kind), Buffer.from(text)])
}

let opened: Promise<Policy> | undefined

function openedPolicy(): Promise<Policy> {
  opened ??= openPolicy()
  return opened
}

async function openPolicy(): Promise<Policy> {
  const keys = TYPES.map((type) => fixture(`keys/${type}.pub`))
  const trust = await openTrust({ '*': { keys, ...KEYLESS, trustedRoot: fixture('trusted-root.json') } })
  for (const { blobs } of TYPES.flatMap((type) => [snapshot(`cosign3-${type}`), snapshot(`cosign2-${type}`)]))
    for (const text of Object.values(blobs)) SIGNED.add(signedPart(JSON.parse(text), Buffer.from(text)))
  for (const name of ['signature', 'provenance'])
    SIGNED.add(signedPart(JSON.parse(readFileSync(fixture(`keyless-${name}.json`), 'utf8')), FILE))
  const policy = trust.policyFor(undefined)
  if (!policy) throw new Error('no policy')
  return policy
}

async function verify(kind: number, content: Uint8Array, policy: Policy): Promise<string> {
  const name = KINDS[kind]
  try {
    if (name === undefined) {
      const { signer } = await verifyFile('x', FILE, content, policy)
      return `file by ${signer.kind}`
    }
    const piece: EvidenceItem = { kind: name, origin: DIGEST, content, signature: COSIGN_2_SIGNATURE }
    const { signer, format } = await verifyArtifact('x', DIGEST, [piece], policy)
    const part = name === 'simple-signing' ? base64(content) : signedPart(parse(content), content)
    if (!SIGNED.has(part)) throw new Error('it was not signed')
    return `${format} by ${signer.kind}`
  } catch (error) {
    if (!hasOwnCode(error)) throw error
    return `${error.code} ${reasonOf(error.message)}`
  }
}

/** Of the P-256 key: it fits one payload of the fixtures. */
const COSIGN_2_SIGNATURE = Object.values(snapshot('cosign2-p256').manifests)
  .map(({ text }) => /cosign\/signature":"([^"]+)"/.exec(text)?.[1])
  .find((text) => text !== undefined)

function parse(content: Uint8Array): { readonly dsseEnvelope?: { readonly payload?: string } } {
  return JSON.parse(Buffer.from(content).toString())
}

function signedPart(json: ReturnType<typeof parse>, content: Uint8Array): string {
  return json.dsseEnvelope?.payload ?? base64(content)
}

function base64(content: Uint8Array): string {
  return Buffer.from(content).toString('base64')
}

/** Without what the input chose: field names, identities, and messages of the package. */
function reasonOf(message: string): string {
  const [, reason = ''] = /policy \*: (?:sha256:\w+: )?(.*)/s.exec(message) ?? []
  return OURS.find((text) => reason.startsWith(text)) ?? 'other'
}

const OURS = [
  'it is not JSON',
  'it is not a JSON object',
  'its media type',
  'it has the unknown field',
  'it has neither',
  'it has more than',
  'it does not have exactly one',
  'its message signature',
  'its DSSE envelope',
  'the payload of its DSSE envelope',
  'the payload type of its DSSE',
  'the signature of its DSSE envelope',
  'an entry of its log',
  'it signs a file',
  'it was made for another file',
  'it was made for another digest',
  'no key of the policy',
  'its identity',
  'its issuer',
  'its statement',
]
