import { ConfigInvalidError } from '../../src/errors/errors.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { parseConfig } from '../../src/options/config-file.ts'
import { readJson } from '../../src/options/config-json.ts'
import { readToml } from '../../src/options/config-toml.ts'
import { readYaml } from '../../src/options/config-yaml.ts'
import { toData } from '../../src/options/given.ts'

export const readers = { json: readJson, yaml: readYaml, toml: readToml }

export type Format = keyof typeof readers

/** A config file of this text in `/etc/wasm-serve`, as data. */
export function configOf(
  format: Format,
  text: string,
  environment: NodeJS.ProcessEnv = {},
  secrets = new Secrets(),
): unknown {
  return toData(
    parseConfig(text, readers[format], { path: `/etc/wasm-serve/c.${format}`, environment, secrets }),
  )
}

/** What is wrong with a config file: `line:column: message` for each problem. */
export function problemsIn(format: Format, text: string, environment: NodeJS.ProcessEnv = {}): string[] {
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
