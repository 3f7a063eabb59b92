import { failure } from './failure.ts'

/* Failures of plug-ins from OCI registries, and of their signatures. */

/** The registry is unreachable or failed, also after retries. A cached copy is used if the pull policy permits it. */
export const RegistryUnreachableError = failure<[reference: string, reason: string]>(
  'WASM_SERVE_REGISTRY_UNREACHABLE',
  'The registry does not answer for %s: %s',
)

/** The registry refuses: no such name or tag, no access, or an answer that the specification does not permit. */
export const RegistryRefusedError = failure<[reference: string, reason: string]>(
  'WASM_SERVE_REGISTRY_REFUSED',
  'The registry refuses %s: %s',
)

/** The credentials for a registry cannot be read: the Docker configuration or a credential helper is broken. */
export const CredentialsInvalidError = failure<[source: string, reason: string]>(
  'WASM_SERVE_CREDENTIALS_INVALID',
  'The registry credentials in %s cannot be used: %s',
)

/** The artifact is not a plug-in, or it is not clear which of its parts is the plug-in. */
export const ArtifactUnsupportedError = failure<[reference: string, reason: string]>(
  'WASM_SERVE_ARTIFACT_UNSUPPORTED',
  'The artifact %s cannot be used: %s',
)

/** The pull policy is `Never`, and the cache has no copy. */
export const PullNeverError = failure<[reference: string]>(
  'WASM_SERVE_PULL_NEVER',
  'The plug-in %s is not in the cache, and the pull policy is Never',
)

/** A trusted key, a trusted root or a policy of `trust` cannot be used. */
export const TrustInvalidError = failure<[source: string, reason: string]>(
  'WASM_SERVE_TRUST_INVALID',
  'The trust setting %s cannot be used: %s',
)

/** Signatures are required, and no policy of `trust` applies to the plug-in. */
export const TrustPolicyMissingError = failure<[source: string, remedy: string]>(
  'WASM_SERVE_TRUST_POLICY_MISSING',
  'Plug-in %s is refused: signatures are required, and no policy of "trust" applies to it: %s',
)

/** A policy applies to the plug-in, which has no signature. */
export const SignatureMissingError = failure<[source: string, policy: string]>(
  'WASM_SERVE_SIGNATURE_MISSING',
  'Plug-in %s is refused: it has no signature, and the policy %s requires one',
)

/** The plug-in has signatures, and none fulfils the policy; the message has the reason of each. */
export const SignatureInvalidError = failure<[source: string, policy: string, reasons: string]>(
  'WASM_SERVE_SIGNATURE_INVALID',
  'Plug-in %s is refused: no signature fulfils the policy %s: %s',
)

/** The policy requires an attestation, such as an SBOM, that no trusted signer made for the plug-in. */
export const AttestationMissingError = failure<[source: string, policy: string, predicateType: string]>(
  'WASM_SERVE_ATTESTATION_MISSING',
  'Plug-in %s is refused: the policy %s requires an attestation of type %s',
)
