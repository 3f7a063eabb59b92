import { readFile } from 'node:fs/promises'
import type { Config } from '../../options/config.ts'

/** Whether a command line may name a fleet. Most do not, and their config file is not parsed twice. */
export async function mayHaveFleet({ flags, variables, configFile, words }: Config): Promise<boolean> {
  if (flags.server.entries.has('fleet') || variables.server.entries.has('fleet')) return true
  const file = configFile ?? (words.length === 0 ? await defaultFile() : undefined)
  // Who reads the configuration reports a file that cannot be read.
  const text = file === undefined ? '' : await readFile(file, 'utf8').catch(() => '')
  return text.includes('fleet')
}

async function defaultFile(): Promise<string | undefined> {
  const { findConfigFile } = await import('../../options/config-file.ts') // loaded on demand
  return findConfigFile('.')
}
