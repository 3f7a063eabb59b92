/*
 * Makes the files `keyless-*.json` and `trusted-root*.json`, with certificate authority and logs of @sigstore/mock:
 *
 *   npm install --no-save @sigstore/mock@0.12.1 @sigstore/sign@4 @sigstore/protobuf-specs@0.5.2
 *   node make-keyless.mjs <folder>
 */
import { createHash, generateKeyPairSync } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { argv } from 'node:process'
import { bundleToJSON } from '@sigstore/bundle'
import { fulcioHandler, initializeCA, initializeCTLog, initializeTLog, rekorHandler } from '@sigstore/mock'
import { DSSEBundleBuilder, FulcioSigner, MessageSignatureBundleBuilder, RekorWitness } from '@sigstore/sign'

const ISSUER = 'https://token.actions.githubusercontent.com'
const IDENTITY = 'https://github.com/acme/hello/.github/workflows/release.yml@refs/tags/v1'
const { digest } = JSON.parse(readFileSync(new URL('cosign3-p256.json', import.meta.url)))
const file = Buffer.from('0061736d01000000', 'hex')

const sigstore = await open()
const other = await open()
write('trusted-root', sigstore.root)
write('trusted-root-other', other.root)
const statement = (predicateType, type = 'v1') => ({
  _type: `https://in-toto.io/Statement/${type}`,
  subject: [{ digest: { sha256: digest.slice('sha256:'.length) }, annotations: {} }],
  predicateType,
  predicate: {},
})
const signature = statement('https://sigstore.dev/cosign/sign/v1')
write('keyless-signature', await sign({ statement: signature }))
write('keyless-other-identity', await sign({ statement: signature, identity: `${IDENTITY}-evil` }))
write('keyless-other-issuer', await sign({ statement: signature, issuer: `${ISSUER}.evil.example` }))
write('keyless-provenance', await sign({ statement: statement('https://slsa.dev/provenance/v1') }))
write('keyless-blob', await sign({ blob: file }))
for (const { close } of [sigstore, other]) close()

async function sign({ statement, blob, issuer = ISSUER, identity = IDENTITY }) {
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const token = `${encode({ alg: 'none' })}.${encode({ iss: issuer, sub: identity, aud: 'sigstore' })}.`
  const signer = new FulcioSigner({
    fulcioBaseURL: sigstore.url,
    identityProvider: { getToken: async () => token },
  })
  const witnesses = [new RekorWitness({ rekorBaseURL: sigstore.url, entryType: 'dsse' })]
  const Builder = blob ? MessageSignatureBundleBuilder : DSSEBundleBuilder
  const bundle = await new Builder({ signer, witnesses }).create(
    blob
      ? { data: blob }
      : { data: Buffer.from(JSON.stringify(statement)), type: 'application/vnd.in-toto+json' },
  )
  const json = bundleToJSON(bundle)
  const { x509CertificateChain, ...material } = json.verificationMaterial
  if (!x509CertificateChain) return json
  const [certificate] = x509CertificateChain.certificates
  const mediaType = 'application/vnd.dev.sigstore.bundle.v0.3+json' // the package still makes 0.2 for files
  return { ...json, mediaType, verificationMaterial: { ...material, certificate } }
}

/** Rekor stores hashes of the envelope that it got; the mock does not. */
function asRekorStores(entry) {
  if (entry.kind !== 'dsse') return entry
  const { envelope, verifiers } = entry.spec.proposedContent
  const { payload, signatures } = JSON.parse(envelope)
  const hash = (bytes) => ({ algorithm: 'sha256', value: createHash('sha256').update(bytes).digest('hex') })
  const spec = {
    envelopeHash: hash(envelope),
    payloadHash: hash(Buffer.from(payload, 'base64')),
    signatures: signatures.map(({ sig }, i) => ({ signature: sig, verifier: verifiers[i] })),
  }
  return { ...entry, spec }
}

/** A certificate authority and its logs, by HTTP on loopback. */
async function open() {
  const newKey = () => generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const ctLog = await initializeCTLog(newKey())
  const ca = await initializeCA(newKey(), ctLog)
  const tlog = await initializeTLog('https://rekor.example', newKey())
  const handlers = [fulcioHandler(ca), rekorHandler({ log: (entry) => tlog.log(asRekorStores(entry)) })]
  const server = createServer(async (request, response) => {
    const chunks = await collect(request)
    const handler = handlers.find(({ path }) => path === request.url)
    const answer = await handler.fn(Buffer.concat(chunks).toString())
    response.writeHead(answer.statusCode, { 'content-type': answer.contentType ?? 'text/plain' })
    response.end(answer.response)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const start = new Date(Date.now() - 86_400_000).toISOString()
  const key = (bytes) => ({
    rawBytes: bytes.toString('base64'),
    keyDetails: 'PKIX_ECDSA_P256_SHA_256',
    validFor: { start },
  })
  const logId = (bytes) => ({ keyId: createHash('sha256').update(bytes).digest('base64') })
  const log = (baseUrl, bytes) => ({
    baseUrl,
    hashAlgorithm: 'SHA2_256',
    publicKey: key(bytes),
    logId: logId(bytes),
  })
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close: () => server.close(),
    root: {
      mediaType: 'application/vnd.dev.sigstore.trustedroot+json;version=0.1',
      tlogs: [log('https://rekor.example', tlog.publicKey)],
      certificateAuthorities: [
        {
          subject: { organization: 'sigstore.mock', commonName: 'sigstore' },
          uri: 'https://fulcio.example',
          certChain: { certificates: [{ rawBytes: Buffer.from(ca.rootCertificate).toString('base64') }] },
          validFor: { start },
        },
      ],
      ctlogs: [log('https://ctfe.example', ctLog.publicKey)],
      timestampAuthorities: [],
    },
  }
}

async function collect(stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

function write(name, value) {
  writeFileSync(join(argv[2] ?? '.', `${name}.json`), `${JSON.stringify(value)}\n`)
}
