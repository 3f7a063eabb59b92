import { readFileSync } from 'node:fs'

/** The TypeScript of a section of the README, block by block. */
export function readmeSnippets(section: string): string[] {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const text = readme.split(/^## /m).find((part) => part.startsWith(`${section}\n`)) ?? ''
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code)
}
