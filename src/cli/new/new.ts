import { UsageError } from '../../errors/errors.ts'
import type { Environment } from '../../options/config.ts'
import { didYouMean, renderTable } from '../../platform/text.ts'
import { canStripTypes } from '../../script/types.ts'
import { type Command, type Host, type OwnValues, renderPage, takeOwnFlags } from '../command.ts'
import { asking, canAsk } from './ask.ts'
import {
  findLanguage,
  LANGUAGE_NAMES,
  LANGUAGES,
  type Language,
  purposesOf,
  SCRIPT_LANGUAGES,
  type ScriptLanguage,
} from './languages.ts'
import { isProjectName, makeProject, type ProjectPlan } from './project.ts'
import { PURPOSES, type Purpose, TEMPLATES } from './purposes.ts'
import { installsOf, missingPrograms } from './toolchain.ts'

/** Flags of this command only. */
export const NEW_FLAGS = {
  template: {
    kind: 'text',
    placeholder: 'purpose',
    description: `${TEMPLATES.join(', ')}. Default: hello. Rust, Go and scripts have all.`,
  },
  tool: { kind: 'switch', description: 'The template tool: a tool for agents (MCP), with its schema.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve new <language> <name> [flags]',
  about:
    'Creates a folder with a plug-in: source, test, wasm-serve.yaml, README.md. In a\nterminal it asks for missing words, else it lists languages and templates.',
  examples: [
    'wasm-serve new typescript greeter',
    'wasm-serve new js greeter-page --template http',
    'wasm-serve new',
    'wasm-serve new rust greeter-rust --template stream',
  ],
  flags: NEW_FLAGS,
  more: `Languages: ${Object.keys(SCRIPT_LANGUAGES).join(', ')},\n${Object.keys(LANGUAGES).join(', ')}.`,
})

/** Creates a plug-in project in a new folder. Never overwrites a file. */
export const newProject: Command = {
  async run(argv, host) {
    const { values, rest } = takeOwnFlags(argv, NEW_FLAGS)
    if (values.help) return host.out.write(HELP)
    const flag = rest.find((each) => each.startsWith('-'))
    if (flag !== undefined) throw new UsageError(`new has no flag ${flag}`)
    const [language, name, ...more] = rest
    if (more.length > 0) throw new UsageError(`new: one project at a time, not also ${more.join(' ')}`)
    const words = { language, name, template: templateWord(values) }
    const isWhole = language !== undefined && name !== undefined
    if (language === undefined) host.out.write(renderChoices())
    if (language === undefined && !canAsk(host)) return
    const plan = isWhole || !canAsk(host) ? planOf(words) : await askPlan(words, host)
    const paths = makeProject(plan)
    host.out.write(renderMade(plan, paths, host.environment))
  },
}

/** What the command line says of a project. */
interface Words {
  readonly language: string | undefined
  readonly name: string | undefined
  readonly template: string | undefined
}

function templateWord({ template, tool }: OwnValues<typeof NEW_FLAGS>): string | undefined {
  if (tool && template !== undefined && template !== 'tool')
    throw new UsageError(`new: --tool is --template tool, not ${template}`)
  return tool ? 'tool' : template
}

/** @throws UsageError if a word is missing or wrong. */
function planOf({ language: word = '', name, template = 'hello' }: Words): ProjectPlan {
  const language = readLanguage(word)
  if (name === undefined) throw new UsageError(`new: name the project, as in new ${word} greeter`)
  return { language, name: readName(name), purpose: readPurpose(template, language) }
}

/** Asks for the words that are missing. */
function askPlan({ language: word, name, template }: Words, host: Host): Promise<ProjectPlan> {
  return asking(host, async (ask) => {
    const language =
      word === undefined
        ? await ask({ text: 'Language', fallback: 'typescript', read: readLanguage })
        : readLanguage(word)
    const purpose =
      template === undefined
        ? await ask({
            text: `Template (${purposesOf(language).join(', ')})`,
            fallback: 'hello',
            read: (word) => readPurpose(word, language),
          })
        : readPurpose(template, language)
    const chosen =
      name === undefined ? await ask({ text: 'Name', fallback: 'greeter', read: readName }) : readName(name)
    return { language, purpose, name: chosen }
  })
}

/** @throws UsageError if there is no such language. */
function readLanguage(word: string): Language | ScriptLanguage {
  const found = findLanguage(word)
  if (found) return found
  const titles = Object.values(LANGUAGES).map(({ title }) => title)
  const advice = OTHER_LANGUAGES.has(word.toLowerCase())
    ? ': typescript needs no compiler, and you can serve what an Extism PDK of that language builds'
    : didYouMean(word, [...LANGUAGE_NAMES, ...titles])
  throw new UsageError(
    `new: there is no project for the language "${word}"${advice}\nThere are: ${LANGUAGE_NAMES.join(', ')}`,
  )
}

/** Languages whose names are no slips. */
const OTHER_LANGUAGES: ReadonlySet<string> = new Set([
  ...['python', 'py', 'java', 'kotlin', 'scala', 'c#', 'csharp', 'f#', 'fsharp', 'dotnet', 'ruby', 'php'],
  ...['swift', 'haskell', 'ocaml', 'elixir', 'lua', 'perl', 'dart', 'nim', 'moonbit', 'd', 'r'],
])

/** @throws UsageError if the language has no such template. */
function readPurpose(word: string, language: Language | ScriptLanguage): Purpose {
  const known = purposesOf(language)
  const found = known.find((each) => each === word)
  if (found) return found
  throw new UsageError(
    `new: the templates of ${language.title} are ${known.join(', ')}, not "${word}"${didYouMean(word, known)}`,
  )
}

/** @throws UsageError if it cannot be the name of a project. */
function readName(name: string): string {
  if (isProjectName(name)) return name
  throw new UsageError(
    `new: a project name has lower-case letters, digits and hyphens and starts with a letter, not "${name}"`,
  )
}

function renderChoices(): string {
  const scripts = Object.entries(SCRIPT_LANGUAGES).map(([name, { needs }]) => [name, 'nothing', needs])
  const rows = Object.entries(LANGUAGES).map(([name, { toolchain }]) => [name, toolchain.name, toolchain.get])
  const languages = renderTable([['LANGUAGE', 'NEEDS', 'FROM'], ...scripts, ...rows])
  const purposes = renderTable([
    ['TEMPLATE', 'MAKES'],
    ...Object.entries(PURPOSES).map(([name, { about }]) => [name, about]),
  ])
  return `${languages.join('\n')}\n\n${purposes.join('\n')}\n\nA project: wasm-serve new typescript greeter --template http\n`
}

function renderMade(
  { language, name }: ProjectPlan,
  paths: readonly string[],
  environment: Environment,
): string {
  const needs = 'templates' in language ? renderBuild(language, environment) : renderScript(language)
  return `Created ${name}/, a plug-in in ${language.title}: ${paths.join(', ')}
${needs}

  cd ${name}
  npm install
  npx wasm-serve dev
`
}

function renderBuild({ toolchain }: Language, environment: Environment): string {
  const missing = missingPrograms(toolchain, environment)
  if (missing.length === 0) return `Its build needs ${toolchain.name}, which is here`
  return `Its build needs ${toolchain.name}. Missing here: ${missing.join(', ')}
${renderTable(installsOf(toolchain)).join('\n')}`
}

function renderScript({ title, needs }: ScriptLanguage): string {
  const isMissing = title === 'TypeScript' && !canStripTypes()
  return `It needs ${needs}${isMissing ? `\nMissing here: Node.js 22.13, or esbuild` : ''}`
}
