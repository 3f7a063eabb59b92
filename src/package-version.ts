import { createRequire } from 'node:module'

/** The package's version. */
export function packageVersion(): string {
  const { version } = createRequire(import.meta.url)('../package.json') as { version: string }
  return version
}
