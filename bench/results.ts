import { mkdirSync, writeFileSync } from 'node:fs'
import type { Report } from './bench.ts'
import { type Origin, renderOrigin } from './origin.ts'
import { updateReadme } from './readme.ts'

const FOLDER = new URL('results/', import.meta.url)
const BENCH_README = new URL('README.md', import.meta.url)
const PROJECT_README = new URL('../README.md', import.meta.url)

/** Keeps what was measured where readers look: JSON and pictures in `bench/results`, tables and pictures in the READMEs. */
export function keepResults(origin: Origin, { markdown, data, plots = {}, summary }: Report): void {
  mkdirSync(FOLDER, { recursive: true })
  const json = JSON.stringify({ ...origin, ...data }, null, 1)
  writeFileSync(new URL(`${origin.bench}.json`, FOLDER), `${json}\n`)
  for (const [name, svg] of Object.entries(plots)) writeFileSync(new URL(`${name}.svg`, FOLDER), svg)

  const pictures = (folder: string) => Object.keys(plots).map((name) => `![${name}](${folder}/${name}.svg)`)
  const parts = (folder: string, tables: string) =>
    [...pictures(folder), renderOrigin(origin), tables].join('\n\n')
  updateReadme(BENCH_README, origin.bench, parts('results', markdown))
  if (summary !== undefined) updateReadme(PROJECT_README, origin.bench, parts('bench/results', summary))
}
