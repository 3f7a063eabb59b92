/** A request without an answer, because its connection ended. */
export interface Loss {
  readonly kind: string
  /** What was sent, shortened. */
  readonly what: string
  /** The client's port; undefined for a Unix socket, and if it was not connected. */
  readonly port: number | undefined
  /** When the connection ended, as `Date.now()`. */
  readonly at: number
  readonly reason: string
  /** See {@link LostError.isClosable}. */
  readonly isClosable: boolean
}

/** How the requests of all clients ended. */
export class Tally {
  /** By kind of client, and by end: `answered`, `moved`, `lost`, or a status with a code. */
  readonly ends = new Map<string, Map<string, number>>()
  /** What must not happen. */
  readonly problems: string[] = []
  readonly losses: Loss[] = []
  count(kind: string, end: string): void {
    const ends = this.ends.get(kind) ?? new Map<string, number>()
    ends.set(end, (ends.get(end) ?? 0) + 1)
    this.ends.set(kind, ends)
  }

  lose(loss: Loss): void {
    this.count(loss.kind, 'lost')
    this.losses.push(loss)
  }

  problem(text: string): void {
    this.problems.push(`${new Date().toISOString()} ${text}`)
  }

  /** How many requests of each kind got their own answer. */
  answered(): Map<string, number> {
    return new Map(
      [...this.ends]
        .flatMap(([kind, ends]) => [[kind, ends.get('answered') ?? 0] as const])
        .filter(([, count]) => count > 0),
    )
  }

  get total(): number {
    let sum = 0
    for (const ends of this.ends.values()) for (const count of ends.values()) sum += count
    return sum
  }
}
