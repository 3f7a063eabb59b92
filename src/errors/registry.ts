import { failure } from './failure.ts'

/* Failures of plug-ins from OCI registries, and of their signatures. */

export const RegistryUnreachableError = failure({
  code: 'WASM_SERVE_REGISTRY_UNREACHABLE',
  site: 'command',
  message: 'The registry is not available for %s: %s',
  cause: 'The registry failed or cannot be reached, and no cached copy may be used.',
  remedy: 'Check the network and the registry.',
})

export const RegistryRefusedError = failure({
  code: 'WASM_SERVE_REGISTRY_REFUSED',
  site: 'command',
  message: 'The registry refuses %s: %s',
  cause: 'The registry has no such name or tag, denies access, or violates the OCI specification.',
  remedy: 'Check the reference and the credentials.',
})

export const CredentialsInvalidError = failure({
  code: 'WASM_SERVE_CREDENTIALS_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The registry credentials in %s cannot be used: %s',
  cause: 'The Docker configuration or its credential helper cannot be used.',
  remedy: 'Repair the file, or log in again (`docker login`, `oras login`).',
})

export const ArtifactUnsupportedError = failure({
  code: 'WASM_SERVE_ARTIFACT_UNSUPPORTED',
  site: 'command',
  message: 'The artifact %s cannot be used: %s',
  cause: 'The artifact is not a plug-in, has several modules, or is a component.',
  remedy:
    'Push one core module: `wasm-serve push hello.wasm oci://...`, or `oras push ... hello.wasm:application/wasm`.',
})

export const PullNeverError = failure({
  code: 'WASM_SERVE_PULL_NEVER',
  site: 'command',
  message: 'The plug-in %s is not in the cache, and the pull policy is Never',
  cause: 'The pull policy is `Never`, and the plug-in is not in the cache.',
  remedy: 'Pull it once with another `--pull-policy`, or share the cache folder.',
})

export const TrustInvalidError = failure({
  code: 'WASM_SERVE_TRUST_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The trust setting %s cannot be used: %s',
  cause: 'A key, trusted root or policy of `trust` cannot be used.',
  remedy: 'Name a PEM file with a public key, or a trusted root of Sigstore.',
})

export const TrustPolicyMissingError = failure({
  code: 'WASM_SERVE_TRUST_POLICY_MISSING',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s is refused: signatures are required, and no policy of "trust" applies to it: %s',
  cause: '`requireSignatures` is set, and no policy of `trust` applies.',
  remedy: 'Add a policy for the prefix. For a file or URL, pin a digest.',
})

export const SignatureMissingError = failure({
  code: 'WASM_SERVE_SIGNATURE_MISSING',
  site: 'command',
  message: 'Plug-in %s is refused: it has no signature, and the policy %s requires one',
  cause: 'The plug-in has no signature, and `trust` requires one.',
  remedy: 'Sign it: `cosign sign --key cosign.key REGISTRY/NAME@DIGEST`.',
})

export const SignatureInvalidError = failure({
  code: 'WASM_SERVE_SIGNATURE_INVALID',
  site: 'command',
  message: 'Plug-in %s is refused: no signature fulfils the policy %s: %s',
  cause: 'No signature of the plug-in fulfils the policy of `trust`.',
  remedy: 'Sign the digest as the policy requires, or correct the policy.',
})

export const AttestationMissingError = failure({
  code: 'WASM_SERVE_ATTESTATION_MISSING',
  site: 'command',
  message: 'Plug-in %s is refused: the policy %s requires an attestation of type %s',
  cause: '`trust` requires an attestation, such as an SBOM, from a trusted signer.',
  remedy: 'Attach it with `cosign attest`.',
})
