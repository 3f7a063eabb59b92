import { readFileSync } from 'node:fs'

/** The TypeScript of a section of the README, block by block. */
export function readmeSnippets(section: string): string[] {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const text = readme.split(/^## /m).find((part) => part.startsWith(`${section}\n`)) ?? ''
  return snippetsOf(text)
}

/** The TypeScript of a page, block by block. @param page - Its path from the package's root. */
export function pageSnippets(page: string): string[] {
  return snippetsOf(readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8'))
}

function snippetsOf(text: string): string[] {
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code)
}
