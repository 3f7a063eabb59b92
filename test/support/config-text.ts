import { ConfigInvalidError } from '../../src/errors/errors.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { parseConfig } from '../../src/options/config-file.ts'
import { toData } from '../../src/options/config-node.ts'
import type { ConfigFormat } from '../../src/options/config-text.ts'

/** A config file of this text in `/etc/wasm-serve`, as data. */
export function configOf(
  format: ConfigFormat,
  text: string,
  environment: NodeJS.ProcessEnv = {},
  secrets = new Secrets(),
): unknown {
  return toData(parseConfig(text, format, { path: `/etc/wasm-serve/c.${format}`, environment, secrets }))
}

/** The problems of a config file: `line:column: message` for each one. */
export function problemsIn(
  format: ConfigFormat,
  text: string,
  environment: NodeJS.ProcessEnv = {},
): string[] {
  try {
    configOf(format, text, environment)
  } catch (error) {
    if (!(error instanceof ConfigInvalidError)) throw error
    return error.message
      .split('\n')
      .slice(1)
      .map((line) => line.replace(/^ {2}\S*?:(?=\d+:\d+: )/, ''))
  }
  return []
}
