import { mkdirSync, writeFileSync } from 'node:fs'
import type { Origin } from './origin.ts'
import { updateReadme } from './readme.ts'

export interface Results {
  readonly origin: Origin
  /** Tables and sentences. */
  readonly text: string
  readonly data: object
  readonly plots: Readonly<Record<string, string>>
}

const FOLDER = new URL('results/', import.meta.url)

/** Keeps what was measured where readers look: JSON and pictures in `bench/results`, both of them in `bench/README.md`. */
export function keepResults({ origin, text, data, plots }: Results): void {
  mkdirSync(FOLDER, { recursive: true })
  const json = JSON.stringify({ ...origin, ...data }, null, 1)
  writeFileSync(new URL(`${origin.bench}.json`, FOLDER), `${json}\n`)
  for (const [name, svg] of Object.entries(plots)) writeFileSync(new URL(`${name}.svg`, FOLDER), svg)
  const pictures = Object.keys(plots).map((name) => `![${name}](results/${name}.svg)\n\n`)
  updateReadme(origin.bench, `${pictures.join('')}${text}`)
}
