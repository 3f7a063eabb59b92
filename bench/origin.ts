import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** Where and how results were measured. */
export interface Origin {
  readonly bench: string
  readonly command: string
  readonly date: string
  readonly node: string
  readonly fastify: string
  readonly cpu: string
  readonly cores: number
  /** The load of the machine by other programs, before or after: 0 is idle, 1 is all cores. */
  readonly busy: number
}

/** Beyond this, times say nothing. */
const BUSY = 0.1

/** Whether other programs used the machine too much for its times to be shown. */
export function isBusy({ busy }: Pick<Origin, 'busy'>): boolean {
  return busy > BUSY
}

/** @param args - What followed `npm run bench --`, with the defaults that were used. */
export function describeOrigin(bench: string, args: string, busy: number): Origin {
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
    busy,
  }
}

export function renderOrigin(origin: Origin): string {
  const line = `${describeMachine(origin)}: \`${origin.command}\``
  if (!isBusy(origin)) return line
  const share = renderNumber(origin.busy * 100, 0)
  return `${line}\n\n**The machine was busy**: other programs used ${share} % of its cores. These times are not kept.`
}

export function describeMachine({ date, node, fastify, cpu, cores }: Origin): string {
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
