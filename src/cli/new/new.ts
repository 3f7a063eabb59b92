import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ProjectNotMadeError, UsageError } from '../../errors/errors.ts'
import { didYouMean } from '../../platform/nearest.ts'
import type { Command } from '../command.ts'
import { renderPage } from '../help-page.ts'
import { renderTable } from '../table.ts'
import { LANGUAGES, type Language, languageOf } from './languages.ts'
import { isProjectName, projectFiles } from './project.ts'

const HELP = renderPage({
  usage: 'wasm-serve new <language> <name>',
  about:
    'Makes a folder with a plug-in to begin with: source, build.sh, wasm-serve.yaml,\nREADME.md. Without words: the languages, and what builds them.',
  examples: [
    'wasm-serve new rust greeter',
    'wasm-serve new',
    'wasm-serve new assemblyscript greeter-as',
    'wasm-serve new c++ greeter-cpp',
  ],
  flags: { help: { kind: 'switch', short: 'h', description: 'Show this page.' } },
  more: `Languages: ${Object.keys(LANGUAGES).join(', ')}.`,
})

/** Makes a plug-in project in a folder of its own, and overwrites nothing. */
export const newProject: Command = {
  async run(argv, { out }) {
    if (argv.includes('--help') || argv.includes('-h')) return out.write(HELP)
    const flag = argv.find((word) => word.startsWith('-'))
    if (flag !== undefined) throw new UsageError(`new has no flag ${flag}`)
    const [word, name, ...more] = argv
    if (word === undefined) return out.write(renderLanguages())
    const language = languageOf(word)
    if (!language) throw new UsageError(unknownLanguage(word))
    if (name === undefined) throw new UsageError(`new: name the project, as in new ${word} greeter`)
    if (more.length > 0) throw new UsageError(`new: one project at a time, not also ${more.join(' ')}`)
    if (!isProjectName(name)) {
      throw new UsageError(
        `new: a project is called by small letters, digits and hyphens, a letter first, not "${name}"`,
      )
    }
    const paths = makeProject(language, name)
    out.write(renderMade(language, name, paths))
  },
}

function unknownLanguage(word: string): string {
  const names = Object.keys(LANGUAGES)
  const titles = Object.values(LANGUAGES).map(({ title }) => title)
  return `new: there is no language "${word}"${didYouMean(word, [...names, ...titles])}\nThere are: ${names.join(', ')}`
}

/**
 * @returns what was written, below the folder.
 * @throws {@link ProjectNotMadeError}
 */
function makeProject(language: Language, name: string): string[] {
  try {
    const files = projectFiles(language, name)
    mkdirSync(name, { recursive: true }) // one that is there, and empty, will do
    if (readdirSync(name).length > 0) throw new ProjectNotMadeError(name, 'the folder is not empty')
    for (const { path, content } of files) {
      const file = join(name, path)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, content, { flag: 'wx', mode: path === 'build.sh' ? 0o755 : 0o644 })
    }
    return files.map(({ path }) => path)
  } catch (error) {
    if (error instanceof Error && 'syscall' in error)
      throw new ProjectNotMadeError(name, error.message, { cause: error })
    throw error
  }
}

function renderLanguages(): string {
  const rows = Object.entries(LANGUAGES).map(([name, { toolchain }]) => [name, toolchain.name, toolchain.get])
  return `${renderTable([['LANGUAGE', 'NEEDS', 'FROM'], ...rows]).join('\n')}\n\nA project: wasm-serve new rust greeter\n`
}

function renderMade({ title, toolchain }: Language, name: string, paths: readonly string[]): string {
  return `Made ${name}/, a plug-in in ${title}: ${paths.join(', ')}
Its build needs ${toolchain.name}: ${toolchain.get}

  cd ${name}
  bash build.sh
  npx wasm-serve
`
}
