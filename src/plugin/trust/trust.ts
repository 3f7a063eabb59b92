import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { TrustInvalidError } from '../../errors/registry.ts'
import { fileProblem } from '../../platform/system-errors.ts'
import { sha256 } from '../source/digest.ts'
import { type Identity, type IdentityVerifier, openIdentityVerifier } from './keyless.ts'
import { longestPrefix, parsePrefix } from './policy-prefix.ts'
import { loadTrustedKey, type TrustedKey } from './trusted-key.ts'

/** Which signatures plug-ins from one place need. One of `keys`, or `issuer` and `identity`, is enough for a signature. */
export interface TrustPolicy {
  /** Files with public keys in PEM: ECDSA P-256 or P-384, Ed25519, or RSA of at least 2048 bits. */
  readonly keys?: readonly string[]
  /** The URL of the OpenID Connect issuer, such as `https://token.actions.githubusercontent.com`. */
  readonly issuer?: string
  /**
   * The identity of the signer at the issuer, such as a mail address or a workflow's URL. It is compared exactly. A `*` is
   * possible at the end, after `/` or `@`.
   */
  readonly identity?: string
  /** The file of Sigstore's trusted root, in JSON. Required with `identity`. No network is used. */
  readonly trustedRoot?: string
  /** Predicate types of attestations that must be there too, signed as the policy demands. */
  readonly attestations?: readonly string[]
}

/** The policies by prefix. */
export interface Trust {
  /**
   * The policy with the longest prefix.
   *
   * @param name - `registry/repository` of an artifact, or the URL of a download; undefined for a file or an upload,
   * to which only the policy `*` applies.
   */
  policyFor(name: string | undefined): Policy | undefined
}

/** A policy whose files were loaded. */
export interface Policy {
  /** The prefix, as in the configuration. */
  readonly name: string
  /** SHA-256, in hex, over everything that decides: a result with the same policy and the same evidence is the same. */
  readonly digest: string
  readonly keys: readonly TrustedKey[]
  readonly identity: IdentityVerifier | undefined
  /** Required predicate types. */
  readonly attestations: readonly string[]
}

/** Limit of a trusted root, in bytes. Sigstore's has 7 KB. */
const MAX_ROOT_BYTES = 1_048_576

/** Maximum number of keys: each signature is tried with each key. */
const MAX_KEYS = 16

/**
 * Loads the keys and trusted roots of policies.
 *
 * @param policies - By prefix: of `registry/repository`, of a URL, or `*` for everything else. A prefix ends at a slash:
 * `ghcr.io/acme` and `ghcr.io/acme/` are the same, and apply to `ghcr.io/acme/x`, not to `ghcr.io/acme-evil/x`.
 * @param options - `folder`: where relative paths begin. Default: the working directory.
 * @throws {@link TrustInvalidError} with the file or policy, and the reason.
 * @throws {@link PackageMissingError} if a policy has an identity, and the packages of Sigstore are not installed.
 */
export async function openTrust(
  policies: Readonly<Record<string, TrustPolicy>>,
  { folder = '.' }: { readonly folder?: string } = {},
): Promise<Trust> {
  const byPrefix = new Map<string, Policy>()
  for (const [name, policy] of Object.entries(policies)) {
    const parsed = parsePrefix(name)
    if ('problem' in parsed) throw new TrustInvalidError(name, parsed.problem)
    const other = byPrefix.get(parsed.prefix)
    if (other) throw new TrustInvalidError(name, `it has the same prefix as ${other.name}`)
    byPrefix.set(parsed.prefix, await loadPolicy(name, policy, folder))
  }
  return { policyFor: (name) => longestPrefix(byPrefix, name) }
}

async function loadPolicy(name: string, policy: TrustPolicy, folder: string): Promise<Policy> {
  const { attestations = [], keys: files = [], trustedRoot } = policy
  const accepted = acceptedIdentity(name, policy)
  if (files.length === 0 && !accepted)
    throw new TrustInvalidError(name, 'it has neither keys, nor an issuer and an identity')
  if (files.length > MAX_KEYS) throw new TrustInvalidError(name, `it has more than ${MAX_KEYS} keys`)
  const keys = await Promise.all(files.map((file) => loadTrustedKey(resolve(folder, file))))
  const parts: unknown[] = [keys.map(({ id, name }) => `${id} ${name}`).sort(), [...attestations].sort()]
  if (!accepted || trustedRoot === undefined)
    return { name, digest: digestOf(parts), keys, identity: undefined, attestations }
  const path = resolve(folder, trustedRoot)
  const root = await readRoot(path)
  const identity = await openIdentityVerifier(accepted, root, path)
  return { name, digest: digestOf([...parts, accepted, sha256(root)]), keys, identity, attestations }
}

/** @returns undefined if the policy has only keys. */
function acceptedIdentity(
  name: string,
  { issuer, identity, trustedRoot }: TrustPolicy,
): Identity | undefined {
  if (issuer === undefined && identity === undefined && trustedRoot === undefined) return undefined
  if (!issuer || !identity)
    throw new TrustInvalidError(name, 'issuer, identity and trustedRoot must be set together')
  if (trustedRoot === undefined)
    throw new TrustInvalidError(
      name,
      'identity needs trustedRoot, the file with certificate authorities and logs',
    )
  const star = identity.indexOf('*')
  if (star >= 0 && (star < identity.length - 1 || !/[^/][/@]\*$/.test(identity)))
    throw new TrustInvalidError(name, '"*" in identity is possible only at its end, after "/" or "@"')
  return { issuer, identity }
}

async function readRoot(path: string): Promise<Uint8Array> {
  try {
    const bytes = await readFile(path)
    if (bytes.length <= MAX_ROOT_BYTES) return bytes
  } catch (error) {
    throw new TrustInvalidError(path, fileProblem(error), { cause: error })
  }
  throw new TrustInvalidError(path, `it is larger than ${MAX_ROOT_BYTES} bytes`)
}

/** The first element is changed whenever the rules of verification become stricter. */
function digestOf(parts: readonly unknown[]): string {
  return sha256(JSON.stringify(['wasm-serve-trust-1', ...parts]))
}
