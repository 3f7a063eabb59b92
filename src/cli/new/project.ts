import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ProjectNotMadeError, UsageError } from '../../errors/errors.ts'
import { isObject } from '../../platform/json-text.ts'
import { packageFile, packageVersion } from '../../platform/packages.ts'
import type { Language, ScriptLanguage, Template } from './languages.ts'
import { type Purpose, purposeFacts, templateOf, versionsOf } from './purposes.ts'
import { installsOf } from './toolchain.ts'

/** A project to make. */
export interface ProjectPlan {
  readonly language: Language | ScriptLanguage
  readonly purpose: Purpose
  /** Valid for {@link isProjectName}. It is the name of the folder, too. */
  readonly name: string
}

/** Lower-case letters, digits and hyphens, a letter first: valid as the name of a folder, crate, Go module and package. */
export function isProjectName(name: string): boolean {
  return /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) && name.length <= 64
}

/**
 * Writes a project into a new folder, or an empty one. Never overwrites a file.
 *
 * @returns the paths written, relative to the folder.
 * @throws {@link ProjectNotMadeError}; {@link UsageError} if a dependency of the project has its name.
 */
export function makeProject(plan: ProjectPlan): string[] {
  const { name } = plan
  try {
    const files = filesOf(plan)
    mkdirSync(name, { recursive: true }) // an existing empty folder is accepted
    if (readdirSync(name).length > 0) throw new ProjectNotMadeError(name, 'the folder is not empty')
    for (const [path, content] of files) {
      const file = join(name, path)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, content, { flag: 'wx', mode: path === 'build.sh' ? 0o755 : 0o644 })
    }
    return files.map(([path]) => path)
  } catch (error) {
    if (error instanceof Error && 'syscall' in error)
      throw new ProjectNotMadeError(name, error.message, { cause: error })
    throw error
  }
}

/** A file of a project: its path, relative to the folder, and its content. */
type ProjectFile = readonly [path: string, content: string]

function filesOf(plan: ProjectPlan): readonly ProjectFile[] {
  const { language, name, purpose } = plan
  const isTool = purpose === 'tool'
  const plugin = pluginOf(plan)
  const sources = 'templates' in language ? builtSources(language, plan) : scriptSources(language, plan)
  return [
    ...sources,
    [`${name}.test.js`, templateFile(purpose, 'plugin.test.js').replaceAll('PLUGIN', plugin)],
    ['package.json', packageText(plan)],
    ['wasm-serve.yaml', configText(plugin, purposeFacts(purpose).routes) + (isTool ? TOOL_CONFIG : '')],
    ['README.md', readmeText(plan) + (isTool ? toolReadme(name) : '')],
    ...(isTool ? ([[`${name}.schema.yaml`, TOOL_SCHEMA]] as const) : []),
    ['.gitignore', '*.wasm\nnode_modules/\ntarget/\n'],
  ]
}

/** What is served, relative to the folder: the script, or what the build makes. */
function pluginOf({ language, name }: ProjectPlan): string {
  return 'templates' in language ? `${name}.wasm` : `${name}.${language.extension}`
}

/** The folder of the templates. */
const PLUGINS = packageFile('plugins/')

function templateFile(purpose: Purpose, file: string): string {
  return readFileSync(new URL(`templates/${templateOf(purpose)}/${file}`, PLUGINS), 'utf8')
}

function scriptSources(
  { extension }: ScriptLanguage,
  { name, purpose }: ProjectPlan,
): readonly ProjectFile[] {
  return [[`${name}.${extension}`, templateFile(purpose, `plugin.${extension}`)]]
}

function builtSources(language: Language, { name, purpose }: ProjectPlan): readonly ProjectFile[] {
  const template = builtTemplate(language, purpose)
  return Object.entries(template.files)
    .filter(([path]) => path !== 'package.json') // each project has one of its own
    .map(([path, from]) => {
      const text = readFileSync(new URL(from, PLUGINS), 'utf8')
      if (path === 'build.sh') return [path, withOutput(text, template, name)]
      return [path, NAMED.test(path) ? withName(text, template, name) : text]
    })
}

function builtTemplate({ templates }: Language, purpose: Purpose): Template {
  return templates[templateOf(purpose)] ?? templates.hello
}

/** Files that contain the project's name. */
const NAMED = /^(?:Cargo\.(?:lock|toml)|go\.mod)$/

function withName(text: string, { made }: Template, name: string): string {
  const crate = `name = "${name}"\n`
  if (name !== made && text.includes(crate)) {
    throw new UsageError(`new: a library of the plug-in is already named ${name}`)
  }
  return text
    .replaceAll(`name = "${made}"\n`, crate)
    .replace(/^module .*/m, `module example.com/${name}`) // without a dot it could name a package of Go's standard library
    .replace(/^license = .*\n/m, '') // the user chooses the license
}

/** Renames the built plug-in, and puts it beside the config file. In `plugins`, uncommitted results go to `target`. */
function withOutput(script: string, { made }: Template, name: string): string {
  return script
    .replaceAll(
      new RegExp(`(release/|target/)?\\b${made}\\.wasm`, 'g'),
      (_, folder) => (folder === 'release/' ? `release/${name.replaceAll('-', '_')}.wasm` : `${name}.wasm`), // cargo's naming
    )
    .replace(/^npm ci /m, 'test -d node_modules || npm install ') // the project has no lock file yet
}

function packageText({ language, purpose, name }: ProjectPlan): string {
  if (name === 'wasm-serve') throw new UsageError('new: a library of the project is already named wasm-serve')
  const isBuilt = 'templates' in language
  const scripts = isBuilt
    ? { dev: 'wasm-serve dev', build: 'bash build.sh', test: 'npm run build && node --test' }
    : { dev: 'wasm-serve dev', build: `wasm-serve build ${name}.${language.extension}`, test: 'node --test' }
  const content = {
    ...{ name, private: true, type: 'module', scripts },
    devDependencies: {
      ...(isBuilt && packagesOf(builtTemplate(language, purpose))),
      ...versionsOf(purposeFacts(purpose).packages ?? []),
      'wasm-serve': `^${packageVersion()}`,
    },
  }
  return `${JSON.stringify(content, null, 2)}\n`
}

/** The packages that the build of a template needs. */
function packagesOf({ files }: Template): object {
  const from = files['package.json']
  const manifest: unknown = from === undefined ? {} : JSON.parse(readFileSync(new URL(from, PLUGINS), 'utf8'))
  return isObject(manifest) && isObject(manifest.devDependencies) ? manifest.devDependencies : {}
}

/** The first lines of a config file. */
export const CONFIG_HEAD = `# yaml-language-server: $schema=./node_modules/wasm-serve/dist/schema.json
# Editors complete this file after npm install wasm-serve.
port: \${PORT:-8080}
`

function configText(plugin: string, routes: readonly string[]): string {
  return `${CONFIG_HEAD}\nroutes:\n${routes.map((route) => `  - ${route}\n    plugin: ${plugin}\n`).join('')}`
}

function readmeText(plan: ProjectPlan): string {
  const { language, name, purpose } = plan
  const { tries, called } = purposeFacts(purpose)
  const source = 'templates' in language ? language.source : pluginOf(plan)
  const call = `npx wasm-serve call ${pluginOf(plan)} --input Bob    # without a server`
  return `# ${name}

An Extism plug-in in ${language.title}. The code is in \`${source}\`, and its test in \`${name}.test.js\`.

\`\`\`sh
npm install
npx wasm-serve dev    # serves it, again after each change
npm test
npm run build         # makes ${name}.wasm${'templates' in language ? '' : ', for other Extism hosts'}
\`\`\`

\`\`\`sh
${[...tries, ...(called ? [call] : [])].join('\n')}
\`\`\`
${'templates' in language ? toolchainReadme(language) : ''}`
}

function toolchainReadme({ toolchain }: Language): string {
  const rows = installsOf(toolchain).map(([system, install]) => `| ${system} | ${install} |\n`)
  return `
The build needs ${toolchain.name}, and bash, which Windows has with Git (https://git-scm.com):

| | |
| --- | --- |
${rows.join('')}`
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
