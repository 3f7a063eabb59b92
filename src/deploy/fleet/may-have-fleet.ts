import { readFileSync } from 'node:fs'
import type { Config } from '../../options/config.ts'
import { findConfigFile } from '../../options/config-file.ts'

/**
 * Whether a command line may name a fleet. Most do not, and their config file is not read twice.
 */
export function mayHaveFleet({ flags, variables, configFile, words }: Config): boolean {
  if (flags.server.entries.has('fleet') || variables.server.entries.has('fleet')) return true
  const file = configFile ?? (words.length === 0 ? findConfigFile('.') : undefined)
  if (file === undefined) return false
  try {
    return readFileSync(file, 'utf8').includes('fleet')
  } catch {
    return false // the reader of the configuration reports it
  }
}
