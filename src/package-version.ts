import { readFileSync } from 'node:fs'
import { PACKAGE_ROOT } from './package-root.ts'

/** The package's version. */
export function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL('package.json', PACKAGE_ROOT), 'utf8'))
  return version
}
