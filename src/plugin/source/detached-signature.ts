import { SignatureMissingError, TrustPolicyMissingError } from '../../errors/errors.ts'
import type { Trust } from '../trust/trust.ts'
import type { ModuleOrigin } from './origin.ts'

/** The signature of a file or URL is beside it: its name with this ending, as in the examples of `cosign sign-blob --bundle`. */
export const BUNDLE_SUFFIX = '.sigstore.json'

/** Maximum size of a bundle. One has some kilobytes. */
export const MAX_BUNDLE = 1_048_576

/** Which plug-ins need a signature. */
export interface SigningRules {
  /** The policies; undefined: there are none. */
  readonly trust: (() => Promise<Trust>) | undefined
  /** Whether a plug-in to which no policy applies is refused. */
  readonly requireSignatures: boolean
}

/**
 * Verifies the detached signature of bytes that are not from a registry.
 *
 * @param name - Of the plug-in, for messages.
 * @param place - Its URL; undefined: only the policy `*` applies.
 * @returns undefined if no policy applies and none is required.
 * @throws {@link TrustPolicyMissingError}, {@link SignatureMissingError}, and the errors of `verifyFile`.
 */
export async function verifyDetached(
  { trust, requireSignatures }: SigningRules,
  name: string,
  place: string | undefined,
  bytes: Uint8Array,
  readBundle: () => Promise<Uint8Array | undefined>,
): Promise<ModuleOrigin | undefined> {
  const policy = (await trust?.())?.policyFor(place)
  if (!policy && !requireSignatures) return undefined
  if (!policy)
    throw new TrustPolicyMissingError(
      name,
      'pin its digest in the configuration (#sha256=...), or add a policy',
    )
  const bundle = await readBundle()
  if (!bundle) throw new SignatureMissingError(name, policy.name)
  const { verifyFile } = await import('../trust/verify.ts') // loaded on demand
  return { place, bundle, signed: await verifyFile(name, bytes, bundle, policy) }
}
