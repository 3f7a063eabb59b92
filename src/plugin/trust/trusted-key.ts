import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { TrustInvalidError } from '../../errors/registry.ts'
import { errorCode } from '../../platform/system-errors.ts'

/** A public key that a policy trusts. */
export interface TrustedKey {
  /** The name of its file, without folders. */
  readonly name: string
  /** SHA-256 of its SubjectPublicKeyInfo, in lower-case hex. */
  readonly id: string
  /** Whether the key made this signature of the data. The algorithm follows from the key, never from the signature. */
  verify(data: Uint8Array, signature: Uint8Array): Promise<boolean>
  /** A possible reason for a signature that it did not make. */
  readonly hint?: string
}

/** Far more than the longest key. */
const MAX_FILE_BYTES = 65_536

const MIN_RSA_BITS = 2_048

/** A verification with a longer key takes more than a millisecond. */
const MAX_RSA_BITS = 8_192

/** cosign refuses smaller exponents. */
const MIN_RSA_EXPONENT = 65_537n

/**
 * Reads a public key in PEM, as `cosign generate-key-pair` and `cosign import-key-pair` write it.
 *
 * @throws {@link TrustInvalidError} with the file and the reason.
 */
export async function loadTrustedKey(path: string): Promise<TrustedKey> {
  const key = parsePublicKey(await readPem(path), path)
  const algorithm = algorithmOf(key)
  if ('problem' in algorithm) throw new TrustInvalidError(path, algorithm.problem)
  const { hashes, hint } = algorithm
  return {
    name: basename(path),
    id: createHash('sha256')
      .update(key.export({ type: 'spki', format: 'der' }))
      .digest('hex'),
    async verify(data, signature) {
      for (const hash of hashes) if (await verifyInPool(hash, data, key, signature)) return true
      return false
    },
    ...(hint !== undefined && { hint }),
  }
}

/** Runs in libuv's thread pool: a file may have hundreds of megabytes. */
const verifyInPool: (
  hash: Hash,
  data: Uint8Array,
  key: KeyObject,
  signature: Uint8Array,
) => Promise<boolean> = promisify(verify)

/** Ed25519 has its own hash. */
type Hash = 'sha256' | 'sha384' | undefined

async function readPem(path: string): Promise<string> {
  try {
    const bytes = await readFile(path)
    if (bytes.length > MAX_FILE_BYTES) throw new TrustInvalidError(path, NO_PUBLIC_KEY)
    return bytes.toString('latin1')
  } catch (error) {
    if (error instanceof TrustInvalidError) throw error
    throw new TrustInvalidError(path, `the file cannot be read (${errorCode(error)})`, { cause: error })
  }
}

const NO_PUBLIC_KEY = 'it is not a public key in PEM (-----BEGIN PUBLIC KEY-----)'

function parsePublicKey(pem: string, path: string): KeyObject {
  const labels = [...pem.matchAll(/-----BEGIN ([^-\n]*)-----/g)].map(([, label = '']) => label)
  if (labels.some((label) => label.includes('PRIVATE KEY')))
    throw new TrustInvalidError(path, 'it is a private key: name the file with the public key (cosign.pub)')
  if (labels.length > 1)
    throw new TrustInvalidError(path, 'it has several keys: write each into its own file')
  if (labels[0] !== 'PUBLIC KEY') throw new TrustInvalidError(path, NO_PUBLIC_KEY)
  try {
    return createPublicKey(pem)
  } catch (error) {
    throw new TrustInvalidError(path, NO_PUBLIC_KEY, { cause: error })
  }
}

interface Algorithm {
  /** Tried in this order. */
  readonly hashes: readonly Hash[]
  readonly hint?: string
}

/** The algorithms that cosign uses for a key: `GetDefaultPublicKeyDetails` in github.com/sigstore/sigstore. */
function algorithmOf({
  asymmetricKeyType,
  asymmetricKeyDetails = {},
}: KeyObject): Algorithm | { problem: string } {
  const { namedCurve, modulusLength = 0, publicExponent = 0n } = asymmetricKeyDetails
  if (asymmetricKeyType === 'ed25519') return { hashes: [undefined], hint: ED25519_HINT }
  if (asymmetricKeyType === 'ec' && namedCurve === 'prime256v1') return { hashes: ['sha256'] }
  // Older versions of cosign use SHA-256 with each curve.
  if (asymmetricKeyType === 'ec' && namedCurve === 'secp384r1') return { hashes: ['sha384', 'sha256'] }
  if (asymmetricKeyType !== 'rsa')
    return { problem: 'the key is none of ECDSA P-256, ECDSA P-384, Ed25519 and RSA' }
  if (modulusLength < MIN_RSA_BITS || modulusLength > MAX_RSA_BITS)
    return {
      problem: `the RSA key has ${modulusLength} bits; ${MIN_RSA_BITS} to ${MAX_RSA_BITS} are accepted`,
    }
  if (publicExponent < MIN_RSA_EXPONENT)
    return { problem: `the exponent of the RSA key is below ${MIN_RSA_EXPONENT}` }
  return { hashes: ['sha256'] } // PKCS #1 v1.5
}

/** `cosign verify` refuses them, too. */
const ED25519_HINT =
  '`cosign sign` makes Ed25519ph signatures, which are not supported: sign artifacts with an ECDSA P-256 key'
