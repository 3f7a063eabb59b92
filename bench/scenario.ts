/** One server under load, and what it is asked. */
export interface Scenario {
  readonly name: string
  /** Starts the server; it prints `listens on URL` when it does. Relative paths are from the repository's root. */
  readonly command: readonly [program: string, ...args: string[]]
  /** Below the server's URL. */
  readonly path: string
  readonly body: string
  /** The only right answer to a body. */
  answer(body: string): string
}

/** Scenarios that are measured together, interleaved, and shown in one table. */
export interface ScenarioSet {
  readonly name: string
  /** Used unless the command line names others. */
  readonly connections: readonly number[]
  /** The first is what the others are compared with. */
  readonly scenarios: readonly Scenario[]
  /** Pairs of names that deserve a sentence of their own. */
  readonly compared: readonly (readonly [better: string, worse: string])[]
}

export const REQUEST_HEADERS = { 'content-type': 'text/plain; charset=utf-8' }

/** The reference of every set: the same Fastify with no guest, so that our cost is the difference. */
export function noPlugin(body: string): Scenario {
  return {
    name: 'no plug-in',
    command: [process.execPath, 'bench/servers/no-plugin.js'],
    path: '/',
    body,
    answer: (body) => body,
  }
}
