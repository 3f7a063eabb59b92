import { PARSED_FLAGS } from '../../options/config.ts'
import { flags } from '../../options/flags.ts'
import { BENCH_FLAGS } from '../bench/bench.ts'
import { CALL_FLAGS } from '../call.ts'
import { INSPECT_FLAGS } from '../inspect/inspect.ts'
import { LANGUAGES } from '../new/languages.ts'
import type { OwnFlag } from '../own-flags.ts'
import { STORE_ACTIONS, STORE_FLAGS } from '../store/store.ts'

/** What a shell can complete: made of the table of flags and the list of commands. */
export interface Words {
  readonly commands: readonly string[]
  /** Of which `new` makes projects. */
  readonly languages: readonly string[]
  /** What `store` can do. */
  readonly storeActions: readonly string[]
  /** With their dashes. */
  readonly flags: readonly string[]
  /** Flags whose value is one of a few. */
  readonly choices: readonly (readonly [flag: string, values: readonly string[]])[]
  /** Flags whose value is a path, or ends in one. */
  readonly paths: readonly string[]
  /** Flags with a value that nobody can guess. */
  readonly texts: readonly string[]
}

/** Flags of single commands. */
const OWN_FLAGS: readonly (readonly [name: string, flag: OwnFlag])[] = [
  ...Object.entries(INSPECT_FLAGS),
  ...Object.entries(CALL_FLAGS),
  ...Object.entries(BENCH_FLAGS),
  ...Object.entries(STORE_FLAGS),
]

const PATH_OPTIONS = new Set(['functions', 'links', 'allowedPaths', 'cacheFolder'])

/** @param commands - Their names. */
export function completionWords(commands: readonly string[]): Words {
  const valued = flags.filter(({ kind }) => kind !== 'boolean')
  const names = (wanted: readonly { readonly name: string }[]) => wanted.map(({ name }) => `--${name}`)
  const negations = flags.filter(({ kind, default: value }) => kind === 'boolean' && value === true)
  const choices = valued.filter(({ values }) => values.length > 0)
  const paths = valued.filter(({ option }) => PATH_OPTIONS.has(option))
  const texts = valued.filter((flag) => !choices.includes(flag) && !paths.includes(flag))
  const own = (isWanted: (flag: OwnFlag) => boolean) =>
    OWN_FLAGS.filter(([, flag]) => isWanted(flag)).flatMap(([name, { short }]) =>
      short === undefined ? [`--${name}`] : [`--${name}`, `-${short}`],
    )
  return {
    commands,
    languages: Object.keys(LANGUAGES),
    storeActions: STORE_ACTIONS,
    flags: [
      ...Object.keys(PARSED_FLAGS).map((name) => `--${name}`),
      ...negations.map(({ name }) => `--no-${name}`),
      ...own(() => true).filter((name) => name.startsWith('--')),
    ].filter(isFirst),
    choices: choices.map(({ name, values }) => [`--${name}`, values]),
    paths: [
      ...names(paths),
      '--manifest',
      '-m',
      '--config-file',
      ...own(({ placeholder }) => placeholder === 'path'),
    ].filter(isFirst),
    texts: [
      ...names(texts),
      '--set-config',
      ...own(({ kind, placeholder }) => kind !== 'switch' && placeholder !== 'path'),
    ].filter(isFirst),
  }
}

function isFirst(word: string, index: number, all: readonly string[]): boolean {
  return all.indexOf(word) === index
}
