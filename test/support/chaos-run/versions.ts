/** Which versions of a plug-in a request may meet, by the changes that were made. */
export interface Versions {
  /** Notes that a change begins. @returns notes its result; nothing has changed if it is false. */
  change(version: number): (isLive: boolean) => void
  /** Whether a request that began then, and was answered now, may have met it. */
  isPossible(version: number, begun: number): boolean
  /** Those of now, for messages. */
  describe(): string
}

interface Life {
  readonly version: number
  readonly from: number
  /** When the change that ended it was answered. */
  until: number
}

export function openVersions(first: number): Versions {
  const lives: Life[] = [{ version: first, from: 0, until: Number.POSITIVE_INFINITY }]
  return {
    change(version) {
      const life = { version, from: performance.now(), until: Number.POSITIVE_INFINITY }
      const before = lives.filter(({ until }) => until === Number.POSITIVE_INFINITY)
      lives.push(life)
      if (lives.length > 100) lives.splice(0, 50)
      return (isLive) => {
        const now = performance.now()
        for (const each of isLive ? before : [life]) each.until = now
      }
    },
    isPossible: (version, begun) => lives.some((life) => life.version === version && life.until >= begun),
    describe: () =>
      lives
        .slice(-3)
        .map(({ version, until }) => `${version}<${Math.round(until)}`)
        .join(' '),
  }
}

/** Any version that was ever sent may be met: of a fleet, whose nodes follow one another. */
export function openLooseVersions(first: number): Versions {
  const known = new Set([first])
  return {
    change(version) {
      known.add(version)
      return () => undefined
    },
    isPossible: (version) => known.has(version),
    describe: () => `${known.size} versions`,
  }
}
