/** What a change came to; those that were refused are told too. */
export interface ChangeRecord {
  /** When it was over, as ISO 8601. */
  readonly at: string
  /** What asked for it: `SIGHUP`, `files`, or what was asked of the admin API. */
  readonly reason: string
  /** Whether it is live. */
  readonly ok: boolean
  /** What is live now; it grows with each change. */
  readonly revision: number
  readonly ms: number
  /** Routes that are served now. */
  readonly routes: number
  /** Plug-ins of routes that kept their instances. */
  readonly kept: number
  /** What was left as it is, in words. */
  readonly warnings: readonly string[]
  /** Why it is not live. */
  readonly error?: { readonly code: string; readonly message: string }
}

/** How many records are kept. */
const KEPT = 50

/** Records of changes, the newest first, and how many there were. */
export class ChangeLog {
  #records: readonly ChangeRecord[] = []
  #applied = 0
  #refused = 0

  add(record: ChangeRecord): void {
    this.#records = [record, ...this.#records].slice(0, KEPT)
    if (record.ok) this.#applied++
    else this.#refused++
  }

  get records(): readonly ChangeRecord[] {
    return this.#records
  }

  get applied(): number {
    return this.#applied
  }

  get refused(): number {
    return this.#refused
  }
}
