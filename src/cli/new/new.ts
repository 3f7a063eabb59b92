import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ProjectNotMadeError, UsageError } from '../../errors/errors.ts'
import { packageFile } from '../../platform/packages.ts'
import { didYouMean, renderTable } from '../../platform/text.ts'
import { type Command, renderPage } from '../command.ts'
import { LANGUAGES, type Language, languageOf } from './languages.ts'

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

/** A file of a project that is to be made. */
interface ProjectFile {
  /** Below the project's folder. */
  readonly path: string
  readonly content: string
}

/** Where plug-ins have their sources. */
const PLUGINS = packageFile('plugins/')

/**
 * The files of a project: the template's under the project's name, and those that every project has.
 *
 * @param name - As {@link isProjectName} wants it.
 * @throws {@link UsageError} if something that the project is built with has this name.
 */
function projectFiles(language: Language, name: string): readonly ProjectFile[] {
  return [
    ...language.files.map((path) => ({ path, content: template(language, path, name) })),
    { path: 'wasm-serve.yaml', content: configFile(name) },
    { path: 'README.md', content: readme(language, name) },
    { path: '.gitignore', content: '*.wasm\nnode_modules/\ntarget/\n' },
  ]
}

/** Small letters, digits and hyphens, a letter first: what a folder, a crate, a Go module and a package may be called. */
function isProjectName(name: string): boolean {
  return /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) && name.length <= 64
}

function template({ folder }: Language, path: string, name: string): string {
  const text = readFileSync(new URL(`${folder}/${path}`, PLUGINS), 'utf8')
  if (path === 'build.sh') return withOutput(text, name)
  return NAMED.test(path) ? withName(text, folder, name) : text
}

/** Files that say what their project is called. */
const NAMED = /^(?:Cargo\.(?:lock|toml)|go\.mod|package(?:-lock)?\.json)$/

function withName(text: string, folder: string, name: string): string {
  const crate = `name = "${name}"\n`
  if (name !== 'hello' && text.includes(crate)) {
    throw new UsageError(`new: a library that the plug-in is built with is called ${name} already`)
  }
  return text
    .replaceAll('name = "hello"\n', crate)
    .replace(/^module .*/m, `module example.com/${name}`) // without a dot it could be a package of Go's own
    .replaceAll(`"name": "${folder}"`, `"name": "${name}"`)
    .replace(/^(?: {2}"license": |license = ).*\n/m, '') // that is for the person to say
}

/** What is not committed in `plugins` is made in `target` there; a project has its plug-in beside its config. */
function withOutput(script: string, name: string): string {
  return script
    .replaceAll('release/hello.wasm', `release/${name.replaceAll('-', '_')}.wasm`) // cargo's way
    .replaceAll('target/hello.wasm', 'hello.wasm')
    .replaceAll('hello.wasm', `${name}.wasm`)
}

function configFile(name: string): string {
  return `# yaml-language-server: $schema=./node_modules/wasm-serve/dist/schema.json
# Editors complete this file after npm install wasm-serve.
port: \${PORT:-8080}

routes:
  - url: /
    plugin: ${name}.wasm
`
}

function readme({ title, source, toolchain }: Language, name: string): string {
  return `# ${name}

An Extism plug-in in ${title}. \`${source}\` is what it does: it greets whoever it is asked about.

\`\`\`sh
bash build.sh     # makes ${name}.wasm
npx wasm-serve    # serves it as wasm-serve.yaml says
\`\`\`

\`\`\`sh
curl http://127.0.0.1:8080/ -d Bob
npx wasm-serve call ${name}.wasm --input Bob    # without a server
\`\`\`

The build needs ${toolchain.name}: ${toolchain.get}.
`
}
