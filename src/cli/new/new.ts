import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ProjectNotMadeError, UsageError } from '../../errors/errors.ts'
import { packageFile } from '../../platform/packages.ts'
import { didYouMean, renderTable } from '../../platform/text.ts'
import { type Command, renderPage } from '../command.ts'

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

/** Display name of the build tool. */
export interface ToolchainSource {
  readonly name: string
  /** One-line installation instructions. */
  readonly get: string
}

/** Languages of new plug-ins by their names on the command line. */
export const LANGUAGES = {
  rust: {
    title: 'Rust',
    folder: 'hello',
    files: ['build.sh', 'Cargo.lock', 'Cargo.toml', 'src/lib.rs'],
    source: 'src/lib.rs',
    toolchain: {
      name: 'Rust',
      get: 'https://rustup.rs, then rustup target add wasm32-unknown-unknown',
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
    },
  },
  js: {
    title: 'JavaScript',
    folder: 'hello-js',
    files: ['build.sh', '.cargo/config.toml', 'Cargo.lock', 'Cargo.toml', 'hello.js', 'src/lib.rs'],
    source: 'hello.js',
    toolchain: {
      name: 'Rust with clang for WASI',
      get: 'https://rustup.rs, rustup target add wasm32-wasip1 and, on Debian 12, apt install clang-19 llvm-19 wasi-libc libclang-rt-19-dev-wasm32',
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
    },
  },
} as const satisfies Readonly<Record<string, Language>>

/** Finds a language by name (`js`) or title (`JavaScript`), ignoring case. */
function languageOf(word: string): Language | undefined {
  const wanted = word.toLowerCase()
  return Object.entries<Language>(LANGUAGES).find(
    ([name, { title }]) => name === wanted || title.toLowerCase() === wanted,
  )?.[1]
}

/** Flags of this command only. */
export const NEW_FLAGS = {
  tool: { kind: 'switch', description: 'Serve it as a tool for agents too (MCP), with its schema.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve new <language> <name> [flags]',
  about:
    'Creates a folder with a starter plug-in: source, build.sh, wasm-serve.yaml,\nREADME.md. Without arguments: lists the languages and their build tools.',
  examples: [
    'wasm-serve new rust greeter',
    'wasm-serve new',
    'wasm-serve new assemblyscript greeter-as',
    'wasm-serve new c++ greeter-cpp',
    'wasm-serve new go greeter-tool --tool',
  ],
  flags: NEW_FLAGS,
  more: `Languages: ${Object.keys(LANGUAGES).join(', ')}.`,
})

/** Creates a plug-in project in a new folder. Never overwrites a file. */
export const newProject: Command = {
  async run(argv, { out }) {
    if (argv.includes('--help') || argv.includes('-h')) return out.write(HELP)
    const isTool = argv.includes('--tool')
    const words = argv.filter((word) => word !== '--tool')
    const flag = words.find((word) => word.startsWith('-'))
    if (flag !== undefined) throw new UsageError(`new has no flag ${flag}`)
    const [word, name, ...more] = words
    if (word === undefined) return out.write(renderLanguages())
    const language = languageOf(word)
    if (!language) throw new UsageError(unknownLanguage(word))
    if (name === undefined) throw new UsageError(`new: name the project, as in new ${word} greeter`)
    if (more.length > 0) throw new UsageError(`new: one project at a time, not also ${more.join(' ')}`)
    if (!isProjectName(name)) {
      throw new UsageError(
        `new: a project name has lower-case letters, digits and hyphens and starts with a letter, not "${name}"`,
      )
    }
    const paths = makeProject(language, name, isTool)
    out.write(renderMade(language, name, paths))
  },
}

function unknownLanguage(word: string): string {
  const names = Object.keys(LANGUAGES)
  const titles = Object.values(LANGUAGES).map(({ title }) => title)
  return `new: there is no language "${word}"${didYouMean(word, [...names, ...titles])}\nThere are: ${names.join(', ')}`
}

/**
 * @returns the paths written, relative to the folder.
 * @throws {@link ProjectNotMadeError}
 */
function makeProject(language: Language, name: string, isTool: boolean): string[] {
  try {
    const files = projectFiles(language, name, isTool)
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
  const rows = Object.entries(LANGUAGES).map(([name, { toolchain }]) => [name, toolchain.name, toolchain.get])
  return `${renderTable([['LANGUAGE', 'NEEDS', 'FROM'], ...rows]).join('\n')}\n\nA project: wasm-serve new rust greeter\n`
}

function renderMade({ title, toolchain }: Language, name: string, paths: readonly string[]): string {
  return `Created ${name}/, a plug-in in ${title}: ${paths.join(', ')}
Its build needs ${toolchain.name}: ${toolchain.get}

  cd ${name}
  bash build.sh
  npx wasm-serve
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
    { path: 'wasm-serve.yaml', content: configFile(name) + (isTool ? TOOL_CONFIG : '') },
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

An Extism plug-in in ${title}. The code is in \`${source}\`: it greets the name in the request.

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
