import { cpus } from 'node:os'

/** Where and how numbers were made. */
export interface Origin {
  readonly bench: string
  readonly command: string
  readonly date: string
  readonly node: string
  readonly cpu: string
  readonly cores: number
}

/** @param args - What followed `npm run bench --`, with the defaults that were used. */
export function describeOrigin(bench: string, args: string): Origin {
  const cores = cpus()
  return {
    bench,
    command: `npm run bench -- ${bench}${args}`,
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    cpu: cores[0]?.model ?? 'unknown CPU',
    cores: cores.length,
  }
}

export function renderOrigin({ date, node, cpu, cores, command }: Origin): string {
  return `${date}, Node ${node}, ${cpu}, ${cores} cores: \`${command}\``
}

/** A number with its digits, as in `1,234.5`. */
export function renderNumber(value: number, digits: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
