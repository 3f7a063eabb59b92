/** One challenge of a `WWW-Authenticate` header. */
export interface Challenge {
  /** The scheme in lower case, such as `bearer`. */
  readonly scheme: string
  /** By name in lower case. */
  readonly parameters: ReadonlyMap<string, string>
}

/** Parses `WWW-Authenticate` (RFC 9110, section 11.6.1), which may have several challenges. Stops where it is malformed. */
export function parseChallenges(header: string): Challenge[] {
  const challenges: { scheme: string; parameters: Map<string, string> }[] = []
  const scanner = { at: 0 }
  for (;;) {
    take(/[\s,]*/y)
    const name = take(/[\w!#$%&'*+.^`|~-]+/y)?.[0].toLowerCase()
    if (name === undefined) return challenges
    const value = take(/[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))/y)
    const last = challenges.at(-1)
    if (!value) challenges.push({ scheme: name, parameters: new Map() })
    else last?.parameters.set(name, value[1]?.replaceAll(/\\(.)/g, '$1') ?? value[2] ?? '')
  }

  function take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = scanner.at
    const match = pattern.exec(header)
    if (match) scanner.at = pattern.lastIndex
    return match ?? undefined
  }
}
