import { readFile } from 'node:fs/promises'
import { InputUnreadableError, UsageError } from '../errors/errors.ts'
import { whyNot } from '../platform/why-not.ts'
import type { Host } from './command.ts'

/** The flags that say what a guest gets as its input. */
export const INPUT_FLAGS = {
  input: { kind: 'text', short: 'i', placeholder: 'text', description: 'The input. Default: none.' },
  'input-file': { kind: 'text', placeholder: 'path', description: 'The input is what is in this file.' },
  stdin: { kind: 'switch', description: 'The input is what comes on standard input.' },
} as const

interface InputValues {
  readonly input: string | undefined
  readonly 'input-file': string | undefined
  readonly stdin: boolean
}

/**
 * Reads a guest's input from where the flags say.
 *
 * @throws {@link UsageError} if they name two places, {@link InputUnreadableError} if a file cannot be read.
 */
export async function readInput(values: InputValues, host: Host): Promise<Uint8Array> {
  const { input, 'input-file': path, stdin } = values
  const given = [input !== undefined, path !== undefined, stdin].filter(Boolean)
  if (given.length > 1)
    throw new UsageError('the input is given twice: --input, --input-file and --stdin exclude each other')
  if (stdin) return host.readInput()
  if (path === undefined) return Buffer.from(input ?? '')
  try {
    return await readFile(path)
  } catch (error) {
    throw new InputUnreadableError(path, whyNot(error), { cause: error })
  }
}
