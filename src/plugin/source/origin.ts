import type { Verified } from '../trust/verify.ts'

/** What travels with an artifact: its annotations, which its digest covers. */
export interface Companions {
  readonly xtpSchema?: string | undefined
  /** A smoke request, as JSON. */
  readonly smoke?: string | undefined
}

/** Where a module comes from, and the signature that was verified. */
export interface ModuleOrigin {
  /**
   * The artifact by its digest (`oci://registry/name@sha256:...`), or a URL without its query; undefined for files and uploads.
   */
  readonly place: string | undefined
  /** The detached signature; undefined for an artifact. */
  readonly bundle?: Uint8Array | undefined
  /** undefined if no policy applies to it. */
  readonly signed?: Verified | undefined
}

/** The signer for people: the name of the key's file and the start of its id, or the identity and its issuer. */
export function renderSigner({ signer }: Pick<Verified, 'signer'>): string {
  if (signer.kind === 'identity') return `${signer.identity} (${signer.issuer})`
  return `${signer.name} (sha256:${signer.keyId.slice(0, 12)})`
}
