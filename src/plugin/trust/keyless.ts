import { TrustInvalidError } from '../../errors/registry.ts'
import { isObject } from '../../platform/json-text.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import type { Refusal } from '../source/url.ts'
import type { Bundle } from './bundle.ts'
import { parseJsonBytes } from './strict-json.ts'

/** Verifies signatures whose key has a short-lived certificate for an identity (Fulcio) and an entry in a log (Rekor). */
export interface IdentityVerifier {
  /**
   * @param file - The signed bytes of a message signature.
   * @returns the signer, or why it is not one whom the policy trusts.
   */
  verify(bundle: Bundle, file?: Uint8Array): Identity | Refusal
}

/** The signer's identity in its certificate. */
export interface Identity {
  /** The URL of the OpenID Connect issuer. */
  readonly issuer: string
  /** The subject alternative name, such as a workflow's URL or a mail address. */
  readonly identity: string
}

const PURPOSE = 'a trust policy with an identity'

const PACKAGES = '@sigstore/verify @sigstore/bundle @sigstore/protobuf-specs'

/**
 * Opens a verifier of signatures by an identity. It uses no network.
 *
 * @param accepted - Both must match. A `*` at the end of `identity` stands for any text.
 * @param trustedRoot - The JSON of Sigstore's `trusted_root.json`: certificate authorities and logs.
 * @param path - Of the trusted root, for messages.
 * @throws {@link TrustInvalidError}
 * @throws {@link PackageMissingError}
 */
export async function openIdentityVerifier(
  accepted: Identity,
  trustedRoot: Uint8Array,
  path: string,
): Promise<IdentityVerifier> {
  const load = <Module>(name: string, module: () => Promise<Module>) =>
    loadPackage(PURPOSE, name, module, PACKAGES)
  const { TrustedRoot } = await load('@sigstore/protobuf-specs', () => import('@sigstore/protobuf-specs'))
  const { bundleFromJSON } = await load('@sigstore/bundle', () => import('@sigstore/bundle'))
  const { toSignedEntity, toTrustMaterial, Verifier } = await load(
    '@sigstore/verify',
    () => import('@sigstore/verify'),
  )
  const material = orInvalid(path, () => {
    const root = TrustedRoot.fromJSON(parseRoot(trustedRoot))
    if (root.certificateAuthorities.length === 0 || root.tlogs.length === 0 || root.ctlogs.length === 0)
      throw new Error('it names no certificate authority, or no log')
    return toTrustMaterial(root)
  })
  // The thresholds are the package's: one timestamp, one entry of a log, one certificate timestamp.
  const verifier = new Verifier(material)
  return {
    verify({ json }, file) {
      try {
        const entity = toSignedEntity(bundleFromJSON(json), file && Buffer.from(file))
        const { subjectAlternativeName: identity, extensions } = verifier.verify(entity).identity ?? {}
        const issuer = extensions?.issuer
        if (issuer !== accepted.issuer) return { problem: `its issuer is ${issuer}` }
        if (identity === undefined || !matches(accepted.identity, identity))
          return { problem: `its identity is ${identity}` }
        return { issuer, identity }
      } catch (error) {
        return { problem: error instanceof Error ? error.message : String(error) }
      }
    },
  }
}

function parseRoot(bytes: Uint8Array): unknown {
  const parsed = parseJsonBytes(bytes)
  if ('problem' in parsed) throw new Error(parsed.problem)
  if (!isObject(parsed.value) || !String(parsed.value.mediaType).startsWith(ROOT_TYPE))
    throw new Error(`its media type is not ${ROOT_TYPE}...`)
  return parsed.value
}

const ROOT_TYPE = 'application/vnd.dev.sigstore.trustedroot'

function orInvalid<Result>(path: string, use: () => Result): Result {
  try {
    return use()
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new TrustInvalidError(path, `it is not a trusted root: ${reason}`, { cause: error })
  }
}

function matches(pattern: string, identity: string): boolean {
  return pattern.endsWith('*') ? identity.startsWith(pattern.slice(0, -1)) : identity === pattern
}
