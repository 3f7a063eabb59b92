import { readFileSync } from 'node:fs'
import { UsageError } from '../../errors/errors.ts'
import { packageFile } from '../../platform/package-file.ts'
import type { Language } from './languages.ts'

/** A file of a project that is to be made. */
export interface ProjectFile {
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
export function projectFiles(language: Language, name: string): readonly ProjectFile[] {
  return [
    ...language.files.map((path) => ({ path, content: template(language, path, name) })),
    { path: 'wasm-serve.yaml', content: configFile(name) },
    { path: 'README.md', content: readme(language, name) },
    { path: '.gitignore', content: '*.wasm\nnode_modules/\ntarget/\n' },
  ]
}

/** Small letters, digits and hyphens, a letter first: what a folder, a crate, a Go module and a package may be called. */
export function isProjectName(name: string): boolean {
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
