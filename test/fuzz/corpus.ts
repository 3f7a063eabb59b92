import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Inputs that are larger are not kept. */
const MAX_INPUT_BYTES = 4 * 1024

/** Of one target: the corpora of all targets together stay below 1 MiB. */
const MAX_CORPUS_BYTES = 128 * 1024

/** The kept inputs of a target, by file name. */
export function readCorpus(target: string): Map<string, Uint8Array> {
  const folder = folderOf(target)
  const names = existsSync(folder) ? readdirSync(folder).sort() : []
  return new Map(names.map((name) => [name, readFileSync(`${folder}/${name}`)]))
}

/** Keeps an input whose result is new. @returns false if it is too large, or the corpus is. */
export function keepInput(target: string, input: Uint8Array): boolean {
  const size = [...readCorpus(target).values()].reduce((sum, { length }) => sum + length, input.length)
  const isKept = input.length <= MAX_INPUT_BYTES && size <= MAX_CORPUS_BYTES
  if (isKept) write(target, hash(input), input)
  return isKept
}

/** Keeps an input that failed. @returns the path. */
export function keepFailure(target: string, input: Uint8Array): string {
  return write(target, `failed-${hash(input)}`, input)
}

function write(target: string, name: string, input: Uint8Array): string {
  const path = `${folderOf(target)}/${name}`
  mkdirSync(folderOf(target), { recursive: true })
  writeFileSync(path, input)
  return path
}

function hash(input: Uint8Array): string {
  return createHash('sha256').update(input).digest('hex').slice(0, 16)
}

function folderOf(target: string): string {
  return fileURLToPath(new URL(`corpus/${target}`, import.meta.url))
}
