/** What the endpoint reads of a token that was verified. */
export interface TokenClaims {
  /** The claim `sub`. */
  readonly subject: string | undefined
  /** The claim `iss`: another issuer may have the same subjects. */
  readonly issuer: string | undefined
  /** The claim `scope`, whose values are separated by spaces, or `scp`, which some issuers use. */
  readonly scopes: readonly string[]
}

/** By the request with the token. */
const verified = new WeakMap<object, TokenClaims>()

/** Keeps the claims of a request's token for the endpoint. Call it only after the token was verified. */
export function keepClaims(
  request: object,
  { sub, iss, scope, scp }: Readonly<Record<string, unknown>>,
): void {
  const scopes = [scope, scp].flatMap((claim): unknown =>
    typeof claim === 'string' ? claim.split(' ') : claim,
  )
  verified.set(request, {
    subject: typeof sub === 'string' ? sub : undefined,
    issuer: typeof iss === 'string' ? iss : undefined,
    scopes: scopes.filter((each): each is string => typeof each === 'string' && each !== ''),
  })
}

/** The claims of a request's token; undefined if it has none that was verified. */
export function claimsOf(request: object): TokenClaims | undefined {
  return verified.get(request)
}
