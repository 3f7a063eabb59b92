import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ProjectNotMadeError, UsageError } from '../../errors/errors.ts'
import type { Environment } from '../../options/config.ts'
import { packageFile, packageVersion } from '../../platform/packages.ts'
import { didYouMean, renderTable } from '../../platform/text.ts'
import { canStripTypes } from '../../script/types.ts'
import { type Command, type OwnValues, renderPage, takeOwnFlags } from '../command.ts'
import { missingPrograms, type ToolchainSource } from './toolchain.ts'

/** A language for new projects. Its template is the hello plug-in of that language in `plugins`. */
interface Language {
  /** The display name; in lower case it is accepted on the command line too. */
  readonly title: string
  /** The folder of `plugins` with the template. */
  readonly folder: string
  /** The files of the template. */
  readonly files: readonly string[]
  /** The file that a user edits first. */
  readonly source: string
  readonly toolchain: ToolchainSource
}

/** Compiles nothing, but needs the headers of WASI. */
const WASI_HEADER = ['--target=wasm32-wasi', '-fsyntax-only'] as const

/** Languages of new plug-ins that need a build, by their names on the command line. */
export const LANGUAGES = {
  rust: {
    title: 'Rust',
    folder: 'hello',
    files: ['build.sh', 'Cargo.lock', 'Cargo.toml', 'src/lib.rs'],
    source: 'src/lib.rs',
    toolchain: {
      name: 'Rust',
      get: 'https://rustup.rs, then rustup target add wasm32-unknown-unknown',
      programs: [['cargo', '--version']],
    },
  },
  go: {
    title: 'Go',
    folder: 'hello-go',
    files: ['build.sh', 'go.mod', 'go.sum', 'main.go'],
    source: 'main.go',
    toolchain: {
      name: 'Go',
      get: 'https://go.dev/dl, 1.24 or later',
      programs: [['go', 'version']],
    },
  },
  tinygo: {
    title: 'TinyGo',
    folder: 'hello-tinygo',
    files: ['build.sh', 'go.mod', 'go.sum', 'main.go'],
    source: 'main.go',
    toolchain: {
      name: 'TinyGo',
      get: 'https://tinygo.org/getting-started/install, 0.41 or later, and Go',
      programs: [
        ['tinygo', 'version'],
        ['go', 'version'],
      ],
    },
  },
  assemblyscript: {
    title: 'AssemblyScript',
    folder: 'hello-assemblyscript',
    files: ['build.sh', 'index.ts', 'package-lock.json', 'package.json'],
    source: 'index.ts',
    toolchain: {
      name: 'npm',
      get: 'https://nodejs.org',
      programs: [['npm', '--version']],
    },
  },
  c: {
    title: 'C',
    folder: 'hello-c',
    files: ['build.sh', 'extism.h', 'hello.c'],
    source: 'hello.c',
    toolchain: {
      name: 'clang for WASI',
      get: 'on Debian 12, apt install clang lld wasi-libc libclang-rt-14-dev-wasm32 binaryen',
      programs: [['clang', ...WASI_HEADER, '-xc', '-include', 'stdlib.h', '/dev/null']],
    },
  },
  cpp: {
    title: 'C++',
    folder: 'hello-cpp',
    files: ['build.sh', 'extism.h', 'hello.cc'],
    source: 'hello.cc',
    toolchain: {
      name: 'clang++ for WASI',
      get: 'on Debian 12, apt install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32 libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 binaryen',
      programs: [['clang++-19', ...WASI_HEADER, '-xc++', '-include', 'string', '/dev/null']],
    },
  },
  zig: {
    title: 'Zig',
    folder: 'hello-zig',
    files: ['build.sh', 'hello.zig'],
    source: 'hello.zig',
    toolchain: {
      name: 'Zig',
      get: 'pip install ziglang==0.15.2, then export ZIG="python3 -m ziglang"',
      programs: [['zig', 'version']],
    },
  },
  wat: {
    title: 'WAT',
    folder: 'hello-wat',
    files: ['build.sh', 'hello.wat', 'package-lock.json', 'package.json'],
    source: 'hello.wat',
    toolchain: {
      name: 'npm',
      get: 'https://nodejs.org',
      programs: [['npm', '--version']],
    },
  },
} as const satisfies Readonly<Record<string, Language>>

/** A language that needs no build. */
interface ScriptLanguage {
  readonly title: string
  /** The end of the names of its files, which names the language, too. */
  readonly extension: string
  readonly needs: string
}

/** Languages of new scripts by their names on the command line. */
export const SCRIPT_LANGUAGES = {
  typescript: {
    title: 'TypeScript',
    extension: 'ts',
    needs: 'no build; Node.js 22.13, else npm install esbuild',
  },
  javascript: { title: 'JavaScript', extension: 'js', needs: 'no build' },
} as const satisfies Readonly<Record<string, ScriptLanguage>>

/** Purposes of new scripts. Each but `tool`, which is `hello` with a schema, is a folder of `plugins/templates`. */
export const TEMPLATES = ['hello', 'http', 'tool'] as const

type Template = (typeof TEMPLATES)[number]

/** Finds a language by name (`cpp`) or title (`C++`), ignoring case. */
function languageOf(word: string): Language | undefined {
  const wanted = word.toLowerCase()
  return Object.entries<Language>(LANGUAGES).find(
    ([name, { title }]) => name === wanted || title.toLowerCase() === wanted,
  )?.[1]
}

function scriptLanguageOf(word: string): ScriptLanguage | undefined {
  const wanted = word.toLowerCase()
  return Object.entries<ScriptLanguage>(SCRIPT_LANGUAGES).find(
    ([name, { extension }]) => name === wanted || extension === wanted,
  )?.[1]
}

/** Flags of this command only. */
export const NEW_FLAGS = {
  template: {
    kind: 'text',
    placeholder: 'purpose',
    description: 'hello (default), tool; for scripts also http: a page, with URLs and methods.',
  },
  tool: { kind: 'switch', description: 'The template tool: a tool for agents (MCP), with its schema.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve new <language> <name> [flags]',
  about:
    'Creates a folder with a starter plug-in: source, wasm-serve.yaml, README.md and\nbuild.sh or a test. Without arguments: lists languages and their build tools.',
  examples: [
    'wasm-serve new typescript greeter',
    'wasm-serve new js greeter-page --template http',
    'wasm-serve new',
    'wasm-serve new rust greeter-rust',
    'wasm-serve new go greeter-tool --tool',
  ],
  flags: NEW_FLAGS,
  more: `Languages: ${Object.keys(SCRIPT_LANGUAGES).join(', ')},\n${Object.keys(LANGUAGES).join(', ')}.`,
})

/** Creates a plug-in project in a new folder. Never overwrites a file. */
export const newProject: Command = {
  async run(argv, { out, environment }) {
    const { values, rest } = takeOwnFlags(argv, NEW_FLAGS)
    if (values.help) return out.write(HELP)
    const flag = rest.find((each) => each.startsWith('-'))
    if (flag !== undefined) throw new UsageError(`new has no flag ${flag}`)
    const [word, name, ...more] = rest
    if (word === undefined) return out.write(renderLanguages())
    const script = scriptLanguageOf(word)
    const language = languageOf(word)
    if (!script && !language) throw new UsageError(unknownLanguage(word))
    if (name === undefined) throw new UsageError(`new: name the project, as in new ${word} greeter`)
    if (more.length > 0) throw new UsageError(`new: one project at a time, not also ${more.join(' ')}`)
    if (!isProjectName(name)) {
      throw new UsageError(
        `new: a project name has lower-case letters, digits and hyphens and starts with a letter, not "${name}"`,
      )
    }
    const template = templateOf(values, script !== undefined)
    if (script) {
      const paths = makeProject(name, () => scriptFiles(script, name, template))
      out.write(renderMadeScript(script, name, paths))
    } else if (language) {
      const paths = makeProject(name, () => projectFiles(language, name, template === 'tool'))
      out.write(renderMade(language, name, paths, environment))
    }
  },
}

/** @throws UsageError if there is no such template for these languages. */
function templateOf({ template, tool }: OwnValues<typeof NEW_FLAGS>, isScript: boolean): Template {
  const wanted = template ?? (tool ? 'tool' : 'hello')
  if (tool && wanted !== 'tool') throw new UsageError(`new: --tool is --template tool, not ${wanted}`)
  const known = TEMPLATES.filter((each) => isScript || each !== 'http')
  const found = known.find((each) => each === wanted)
  if (found) return found
  throw new UsageError(
    `new: the templates of this language are ${known.join(', ')}, not "${wanted}"${didYouMean(wanted, known)}`,
  )
}

function unknownLanguage(word: string): string {
  const names = [...Object.keys(SCRIPT_LANGUAGES), ...Object.keys(LANGUAGES)]
  const titles = Object.values(LANGUAGES).map(({ title }) => title)
  const advice = OTHER_LANGUAGES.has(word.toLowerCase())
    ? ': typescript needs no compiler, and what an Extism PDK of that language builds can be served'
    : didYouMean(word, [...names, ...titles])
  return `new: there is no project for the language "${word}"${advice}\nThere are: ${names.join(', ')}`
}

/** Languages whose names are no slips. */
const OTHER_LANGUAGES: ReadonlySet<string> = new Set([
  ...['python', 'py', 'java', 'kotlin', 'scala', 'c#', 'csharp', 'f#', 'fsharp', 'dotnet', 'ruby', 'php'],
  ...['swift', 'haskell', 'ocaml', 'elixir', 'lua', 'perl', 'dart', 'nim', 'moonbit', 'd', 'r'],
])

/**
 * @returns the paths written, relative to the folder.
 * @throws {@link ProjectNotMadeError}
 */
function makeProject(name: string, content: () => readonly ProjectFile[]): string[] {
  try {
    const files = content()
    mkdirSync(name, { recursive: true }) // an existing empty folder is accepted
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
  const scripts = Object.entries(SCRIPT_LANGUAGES).map(([name, { needs }]) => [name, 'nothing', needs])
  const rows = Object.entries(LANGUAGES).map(([name, { toolchain }]) => [name, toolchain.name, toolchain.get])
  const table = renderTable([['LANGUAGE', 'NEEDS', 'FROM'], ...scripts, ...rows])
  return `${table.join('\n')}\n\nA project: wasm-serve new typescript greeter\n`
}

function renderMade(
  { title, toolchain }: Language,
  name: string,
  paths: readonly string[],
  environment: Environment,
): string {
  const missing = missingPrograms(toolchain, environment)
  const state = missing.length > 0 ? `\nMissing here: ${missing.join(', ')}` : ''
  return `Created ${name}/, a plug-in in ${title}: ${paths.join(', ')}
Its build needs ${toolchain.name}: ${toolchain.get}${state}

  cd ${name}
  npx wasm-serve dev    # or bash build.sh, and npx wasm-serve
`
}

function renderMadeScript({ title, needs }: ScriptLanguage, name: string, paths: readonly string[]): string {
  const isMissing = title === 'TypeScript' && !canStripTypes()
  return `Created ${name}/, a plug-in in ${title}: ${paths.join(', ')}
It needs ${needs}${isMissing ? `\nMissing here: Node.js 22.13, or esbuild` : ''}

  cd ${name}
  npm install
  npx wasm-serve dev
`
}

/** A file of a project to create. */
interface ProjectFile {
  /** Relative to the project's folder. */
  readonly path: string
  readonly content: string
}

/** The folder of the templates. */
const PLUGINS = packageFile('plugins/')

/** The files of a project that needs no build. */
function scriptFiles(
  { title, extension }: ScriptLanguage,
  name: string,
  template: Template,
): readonly ProjectFile[] {
  if (name === 'wasm-serve') throw new UsageError('new: a library of the project is already named wasm-serve')
  const isTool = template === 'tool'
  const from = (file: string) =>
    readFileSync(new URL(`templates/${isTool ? 'hello' : template}/${file}`, PLUGINS), 'utf8')
  const script = `${name}.${extension}`
  const test = from('plugin.test.js').replaceAll('PLUGIN', script)
  const config =
    configFile(script, template === 'http' ? HTTP_ROUTE : undefined) + (isTool ? TOOL_CONFIG : '')
  return [
    { path: script, content: from(`plugin.${extension}`) },
    { path: `${name}.test.js`, content: test },
    { path: 'package.json', content: packageFileOf(name, script) },
    { path: 'wasm-serve.yaml', content: config },
    {
      path: 'README.md',
      content: scriptReadme(title, name, script, template) + (isTool ? toolReadme(name) : ''),
    },
    ...(isTool ? [{ path: `${name}.schema.yaml`, content: TOOL_SCHEMA }] : []),
    { path: '.gitignore', content: '*.wasm\nnode_modules/\n' },
  ]
}

function packageFileOf(name: string, script: string): string {
  const content = {
    name,
    private: true,
    type: 'module',
    scripts: { dev: 'wasm-serve dev', build: `wasm-serve build ${script}`, test: 'node --test' },
    devDependencies: { 'wasm-serve': `^${packageVersion()}` },
  }
  return `${JSON.stringify(content, null, 2)}\n`
}

/** The guest gets whole requests, and answers them. */
const HTTP_ROUTE = "    url: /*\n    method: '*'\n    contract: http\n"

function scriptReadme(title: string, name: string, script: string, template: Template): string {
  const example =
    template === 'http'
      ? "curl 'http://127.0.0.1:8080/?name=Bob'"
      : `curl http://127.0.0.1:8080/ -d Bob\nnpx wasm-serve call ${script} --input Bob    # without a server`
  return `# ${name}

A plug-in in ${title}. The code is in \`${script}\`, and its test in \`${name}.test.js\`.

\`\`\`sh
npm install
npx wasm-serve dev    # serves it, again after each change
npm test
npm run build         # makes ${name}.wasm, for other Extism hosts
\`\`\`

\`\`\`sh
${example}
\`\`\`
`
}

/**
 * The files of a project: the template's with the project's name, and those common to all projects.
 *
 * @param name - Valid for {@link isProjectName}.
 * @param isTool - Whether it is served to agents, too.
 * @throws {@link UsageError} if a dependency of the project has this name.
 */
function projectFiles(language: Language, name: string, isTool: boolean): readonly ProjectFile[] {
  return [
    ...language.files.map((path) => ({ path, content: template(language, path, name) })),
    { path: 'wasm-serve.yaml', content: configFile(`${name}.wasm`) + (isTool ? TOOL_CONFIG : '') },
    { path: 'README.md', content: readme(language, name) + (isTool ? toolReadme(name) : '') },
    ...(isTool ? [{ path: `${name}.schema.yaml`, content: TOOL_SCHEMA }] : []),
    { path: '.gitignore', content: '*.wasm\nnode_modules/\ntarget/\n' },
  ]
}

/** Lower-case letters, digits and hyphens, a letter first: valid as the name of a folder, crate, Go module and package. */
function isProjectName(name: string): boolean {
  return /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) && name.length <= 64
}

function template({ folder }: Language, path: string, name: string): string {
  const text = readFileSync(new URL(`${folder}/${path}`, PLUGINS), 'utf8')
  if (path === 'build.sh') return withOutput(text, name)
  return NAMED.test(path) ? withName(text, folder, name) : text
}

/** Files that contain the project's name. */
const NAMED = /^(?:Cargo\.(?:lock|toml)|go\.mod|package(?:-lock)?\.json)$/

function withName(text: string, folder: string, name: string): string {
  const crate = `name = "${name}"\n`
  if (name !== 'hello' && text.includes(crate)) {
    throw new UsageError(`new: a library of the plug-in is already named ${name}`)
  }
  return text
    .replaceAll('name = "hello"\n', crate)
    .replace(/^module .*/m, `module example.com/${name}`) // without a dot it could name a package of Go's standard library
    .replaceAll(`"name": "${folder}"`, `"name": "${name}"`)
    .replace(/^(?: {2}"license": |license = ).*\n/m, '') // the user chooses the license
}

/** Renames the built plug-in, and puts it beside the config file. In `plugins`, uncommitted results go to `target`. */
function withOutput(script: string, name: string): string {
  return script
    .replaceAll('release/hello.wasm', `release/${name.replaceAll('-', '_')}.wasm`) // cargo's naming
    .replaceAll('target/hello.wasm', 'hello.wasm')
    .replaceAll('hello.wasm', `${name}.wasm`)
}

/** The first lines of a config file. */
export const CONFIG_HEAD = `# yaml-language-server: $schema=./node_modules/wasm-serve/dist/schema.json
# Editors complete this file after npm install wasm-serve.
port: \${PORT:-8080}
`

/** @param route - Options of the route, which begin with its URL. */
function configFile(plugin: string, route = '    url: /\n'): string {
  return `${CONFIG_HEAD}
routes:
  - ${route.trimStart()}    plugin: ${plugin}
`
}

function readme({ title, source, toolchain }: Language, name: string): string {
  return `# ${name}

An Extism plug-in in ${title}. The code is in \`${source}\`: it greets the name in the request.

\`\`\`sh
npx wasm-serve dev    # builds it, and serves it again after each change
bash build.sh         # makes ${name}.wasm
npx wasm-serve        # serves it as wasm-serve.yaml says
\`\`\`

\`\`\`sh
curl http://127.0.0.1:8080/ -d Bob
npx wasm-serve call ${name}.wasm --input Bob    # without a server
\`\`\`

The build needs ${toolchain.name}: ${toolchain.get}.
`
}

const TOOL_CONFIG = `
mcp: # the function is a tool for agents, at /mcp
  instructions: Greet people by their names.
`

/** Clients see it, and the server checks arguments and results by it. */
const TOOL_SCHEMA = `# The functions of the plug-in, for agents. https://docs.xtp.dylibso.com/docs/concepts/xtp-schema
version: v1-draft
exports:
  hello:
    description: Greets a person by name.
    input:
      type: string
      description: The name of the person.
      contentType: text/plain; charset=utf-8
    output:
      $ref: '#/components/schemas/Greeting'
      contentType: application/json
components:
  schemas:
    Greeting:
      required: [message]
      properties:
        message:
          type: string
          description: The greeting.
`

function toolReadme(name: string): string {
  return `
The function is a tool for agents, too (MCP): \`http://127.0.0.1:8080/mcp\`, or \`npx wasm-serve mcp\` as the command of a client that
starts its servers. \`${name}.schema.yaml\` describes it.
`
}
