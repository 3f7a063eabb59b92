/** What sends requests, as many at a time as there are connections, each as soon as it has the answer to its last. */
export interface LoadTool {
  /** As `--tool` names it. */
  readonly name: string
  /** Cores that it can use: when they are all busy, requests/s is its limit and not the server's. */
  readonly cores: number
  /** @throws when it cannot be run. */
  fire(load: Load): Promise<LoadResult>
}

export interface Load {
  readonly url: string
  /** Below the URL's origin; asked in turns. */
  readonly paths: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Whether an answer is right; a tool that does not look at bodies does not ask. */
  isRight(answer: string): boolean
  readonly connections: number
  readonly seconds: number
  /** Whether to end at the first failure. */
  readonly isStrict: boolean
}

export interface LoadResult {
  readonly seconds: number
  readonly sent: number
  readonly answered: number
  /** Answers with another body than the right one; always 0 if the tool does not look at bodies. */
  readonly wrong: number
  /** Answers with another status than 2xx. */
  readonly refused: number
  /** Errors of connections, and requests without an answer. */
  readonly lost: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
  /** How many cores the tool kept busy. */
  readonly busyCores: number
}
