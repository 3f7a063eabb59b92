import { parseArgs } from 'node:util'
import type { LoadTool } from './load/load.ts'
import { findTool } from './load/tools.ts'

/** Settings of the command line; each bench has its own defaults. */
export interface Settings {
  readonly runs?: number
  readonly seconds?: number
  readonly warmUpSeconds?: number
  readonly connections?: readonly number[]
  /** Calls of `soak`, requests of `fleet`. */
  readonly calls?: number
  /** The seed of the faults of `fleet`. */
  readonly seed?: number
  readonly tool: LoadTool
  /** As little as still shows something. */
  readonly quick: boolean
}

interface CommandLine {
  /** Names of benches; `all` is all of them. */
  readonly names: readonly string[]
  /** The other arguments, unchanged. */
  readonly flags: readonly string[]
  readonly settings: Settings
  /** Output file for JSON. */
  readonly json: string | undefined
  readonly update: boolean
  /** How long `--update` waits for a quiet machine. */
  readonly maxWaitSeconds: number
}

/** @throws if a setting is invalid. */
export function readCommandLine(): CommandLine {
  const { values, positionals, tokens } = parseArgs({
    allowPositionals: true,
    tokens: true,
    options: {
      runs: { type: 'string' },
      seconds: { type: 'string' },
      'warm-up': { type: 'string' },
      connections: { type: 'string' },
      calls: { type: 'string' },
      seed: { type: 'string' },
      tool: { type: 'string', default: 'autocannon' },
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      update: { type: 'boolean', default: false },
      'max-wait': { type: 'string', default: '600' },
    },
  })
  const { runs, seconds, connections, calls, seed } = values
  const warmUp = values['warm-up']
  return {
    flags: tokens
      .filter((token) => token.kind === 'option')
      .map(({ name, value }) => (value === undefined ? `--${name}` : `--${name}=${value}`)),
    names: positionals.length > 0 ? positionals : ['article'],
    settings: {
      ...(runs !== undefined && { runs: positive('runs', runs) }),
      ...(seconds !== undefined && { seconds: positive('seconds', seconds) }),
      ...(warmUp !== undefined && { warmUpSeconds: positive('warm-up', warmUp) }),
      ...(connections !== undefined && {
        connections: connections.split(',').map((text) => positive('connections', text)),
      }),
      ...(calls !== undefined && { calls: positive('calls', calls) }),
      ...(seed !== undefined && { seed: positive('seed', seed) }),
      tool: findTool(values.tool),
      quick: values.quick,
    },
    json: values.json,
    update: values.update,
    maxWaitSeconds: positive('max-wait', values['max-wait']),
  }
}

function positive(option: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new Error(`--${option}: must be a whole number above 0, not "${text}"`)
}
