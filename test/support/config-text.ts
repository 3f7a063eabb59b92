import { ConfigInvalidError } from '../../src/errors/errors.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { parseConfig } from '../../src/options/config-file.ts'
import { toData } from '../../src/options/config-node.ts'
import type { ConfigFormat } from '../../src/options/config-text.ts'

/** A config file of this text in `/etc/wasm-serve`, as data. */
export async function configOf(
  format: ConfigFormat,
  text: string,
  environment: NodeJS.ProcessEnv = {},
  secrets = new Secrets(),
): Promise<unknown> {
  const context = { path: `/etc/wasm-serve/c.${format}`, environment, secrets }
  return toData(await parseConfig(text, format, context))
}

/** The problems of a config file: `line:column: message` for each one. */
export async function problemsIn(
  format: ConfigFormat,
  text: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<string[]> {
  try {
    await configOf(format, text, environment)
  } catch (error) {
    if (!(error instanceof ConfigInvalidError)) throw error
    return error.message
      .split('\n')
      .slice(1)
      .map((line) => line.replace(/^ {2}\S*?:(?=\d+:\d+: )/, ''))
  }
  return []
}
