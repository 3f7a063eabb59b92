import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { disturbances, type Quietness } from './machine.ts'

/** Where and how results were measured. */
export interface Origin {
  readonly bench: string
  readonly command: string
  readonly date: string
  readonly node: string
  readonly fastify: string
  readonly cpu: string
  readonly cores: number
  /** The worst before, during and after the bench. */
  readonly quietness: Quietness
}

/** Whether the machine was too disturbed for its times to be shown. */
export function isBusy({ quietness }: Pick<Origin, 'quietness'>): boolean {
  return disturbances(quietness).length > 0
}

/** The major version of Node.js. */
export function majorOf({ node }: Pick<Origin, 'node'>): number {
  return Number(/^v(\d+)\./.exec(node)?.[1])
}

/** @param args - What followed `npm run bench --`, with the defaults that were used. */
export function describeOrigin(bench: string, args: string, quietness: Quietness): Origin {
  const cores = cpus()
  const fastify = readFileSync(new URL('../node_modules/fastify/package.json', import.meta.url), 'utf8')
  return {
    bench,
    command: `npm run bench -- ${bench}${args}`,
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    fastify: JSON.parse(fastify).version,
    cpu: cores[0]?.model ?? 'unknown CPU',
    cores: cores.length,
    quietness,
  }
}

export function renderOrigin(origin: Origin): string {
  const line = renderOriginLine(origin)
  if (!isBusy(origin)) return line
  const problems = disturbances(origin.quietness).join('; ')
  return `${line}\n\n**The machine was not quiet**: ${problems}. These times are not kept.`
}

/** The line above each table. */
export function renderOriginLine(origin: Origin): string {
  return `${describeMachine(origin)}; ${describeQuietness(origin.quietness)}: \`${origin.command}\``
}

function describeQuietness({ load, steal, spread }: Quietness): string {
  const share = (value: number) => `${renderNumber(value * 100, 1)} %`
  return [
    `other programs ${share(load)}`,
    ...(steal === undefined ? [] : [`steal ${share(steal)}`]),
    ...(spread === undefined ? [] : [`spread ${renderNumber(spread, 2)}`]),
  ].join(', ')
}

function describeMachine({ date, node, fastify, cpu, cores }: Origin): string {
  return `${date}, Node ${node}, Fastify ${fastify}, ${cpu}, ${cores} cores`
}

/** A number with its digits, as in `1,234.5`. */
export function renderNumber(value: number, digits: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

/** Bytes in MiB, as in `61.5`. */
export function renderMib(bytes: number): string {
  return renderNumber(bytes / 1_048_576, 1)
}
