import { failure } from './failure.ts'

/* Failures of plug-ins from OCI registries, and of their signatures. */

export const RegistryUnreachableError = failure({
  code: 'WASM_SERVE_REGISTRY_UNREACHABLE',
  site: 'command',
  message: 'The registry is not available for %s: %s',
  cause:
    'The registry cannot be reached or failed several times. The pull policy does not permit a cached copy, or there is none.',
  remedy: 'Check the network, the name of the registry, and its state.',
})

export const RegistryRefusedError = failure({
  code: 'WASM_SERVE_REGISTRY_REFUSED',
  site: 'command',
  message: 'The registry refuses %s: %s',
  cause:
    'The registry has no such name or tag, gives no access, or answers something that the OCI specification does not permit.',
  remedy: 'Check the reference and the credentials of its registry.',
})

export const CredentialsInvalidError = failure({
  code: 'WASM_SERVE_CREDENTIALS_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The registry credentials in %s cannot be used: %s',
  cause: 'The Docker configuration, or a credential helper that it names, cannot be used.',
  remedy: 'Repair the file that the message names, or log in again (`docker login`, `oras login`).',
})

export const ArtifactUnsupportedError = failure({
  code: 'WASM_SERVE_ARTIFACT_UNSUPPORTED',
  site: 'command',
  message: 'The artifact %s cannot be used: %s',
  cause:
    'The artifact of the registry is not a plug-in, has several modules, or is a component. The message says what was found.',
  remedy:
    'Push one core module: `wasm-serve push hello.wasm oci://...`, or `oras push ... hello.wasm:application/wasm`.',
})

export const PullNeverError = failure({
  code: 'WASM_SERVE_PULL_NEVER',
  site: 'command',
  message: 'The plug-in %s is not in the cache, and the pull policy is Never',
  cause: 'The pull policy is `Never`, and the cache does not have the plug-in.',
  remedy: 'Pull it once with another `--pull-policy`, or share the cache folder.',
})

export const TrustInvalidError = failure({
  code: 'WASM_SERVE_TRUST_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The trust setting %s cannot be used: %s',
  cause: 'A key, a trusted root or a policy of `trust` cannot be used.',
  remedy: 'Name a PEM file with a public key, or a trusted root of Sigstore.',
})

export const TrustPolicyMissingError = failure({
  code: 'WASM_SERVE_TRUST_POLICY_MISSING',
  site: 'command',
  isMistake: true,
  message: 'Plug-in %s is refused: signatures are required, and no policy of "trust" applies to it: %s',
  cause: '`requireSignatures` is set, and no policy of `trust` applies to the plug-in.',
  remedy:
    'Add a policy for its prefix to `trust`. For a file or URL, a digest pinned in the configuration is enough.',
})

export const SignatureMissingError = failure({
  code: 'WASM_SERVE_SIGNATURE_MISSING',
  site: 'command',
  message: 'Plug-in %s is refused: it has no signature, and the policy %s requires one',
  cause: 'The policy of `trust` requires a signature, and the plug-in has none.',
  remedy: 'Sign it: `cosign sign --key cosign.key REGISTRY/NAME@DIGEST`.',
})

export const SignatureInvalidError = failure({
  code: 'WASM_SERVE_SIGNATURE_INVALID',
  site: 'command',
  message: 'Plug-in %s is refused: no signature fulfils the policy %s: %s',
  cause:
    'The plug-in has signatures, and none fulfils the policy of `trust`. The message has the reason of each.',
  remedy: 'Sign this digest with a key or identity of the policy, or correct the policy.',
})

export const AttestationMissingError = failure({
  code: 'WASM_SERVE_ATTESTATION_MISSING',
  site: 'command',
  message: 'Plug-in %s is refused: the policy %s requires an attestation of type %s',
  cause:
    'The policy of `trust` requires an attestation, such as an SBOM, and no trusted signer made one for this plug-in.',
  remedy: 'Attach it with `cosign attest`, signed by a key or identity of the policy.',
})
