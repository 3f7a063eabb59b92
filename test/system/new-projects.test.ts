import { copyFileSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { LANGUAGES, type Language, purposesOf, SCRIPT_LANGUAGES } from '../../src/cli/new/languages.ts'
import { type Purpose, TEMPLATES, templateOf } from '../../src/cli/new/purposes.ts'
import { run } from '../support/cli.ts'
import { emptyFolder, filesIn } from '../support/new-project.ts'

test('without words new lists the languages, what builds each, and where to get it', async () => {
  const { code, stdout } = await run(['new'])
  expect(code).toBe(0)
  for (const [name, { toolchain }] of Object.entries(LANGUAGES)) {
    expect(stdout).toMatch(new RegExp(`^ {2}${name} +${toolchain.name.replaceAll('+', '\\+')} `, 'm'))
    expect(stdout).toContain(toolchain.get)
  }
  for (const name of Object.keys(SCRIPT_LANGUAGES)) expect(stdout).toContain(`  ${name} `)
})

const projects = Object.entries<Language>(LANGUAGES).flatMap(([name, language]) =>
  purposesOf(language).map((template) => [name, template, language] as const),
)

/** The function and the URL of the first route of a project. */
const FIRST_ROUTES: Readonly<Record<Purpose, RegExp>> = {
  hello: /POST +\/ +my-greeter +hello/,
  http: /\* +\/\* +my-greeter +handle/,
  kv: /POST +\/ +my-greeter +visits/,
  stream: /POST +\/ +my-greeter +capitals/,
  websocket: /GET +\/ +my-greeter +sum/,
  tool: /POST +\/ +my-greeter +hello/,
}

/** Built plug-ins with the functions of the templates. */
const BUILT: Readonly<Record<Purpose, string>> = {
  hello: 'hello/hello',
  http: 'http-rust/http',
  kv: 'visits/visits',
  stream: 'streams-rust/streams',
  websocket: 'socket-rust/socket',
  tool: 'hello/hello',
}

test.each(
  projects,
)('a project in %s for %s has a source, a build, a test, and a configuration', async (name, template, language) => {
  const cwd = emptyFolder()
  const { code, stdout, stderr } = await run(['new', name, 'my-greeter', '--template', template], {}, { cwd })
  expect([code, stderr]).toEqual([0, ''])
  const folder = join(cwd, 'my-greeter')
  const own = Object.keys(language.templates[templateOf(template)]?.files ?? {})
  const common = ['.gitignore', 'README.md', 'my-greeter.test.js', 'package.json', 'wasm-serve.yaml']
  const schema = template === 'tool' ? ['my-greeter.schema.yaml'] : []
  const expected = [...new Set([...own, ...common, ...schema])].sort()
  expect(filesIn(folder)).toEqual(expected)
  for (const file of expected) expect(stdout).toContain(file)
  expect(statSync(join(folder, 'build.sh')).mode & 0o777).toBe(0o755)
  expect(expected).toContain(language.source)
  const readme = readFileSync(join(folder, 'README.md'), 'utf8')
  expect(readme).toContain('npx wasm-serve dev')
  for (const system of ['Debian', 'Fedora', 'macOS', 'Windows']) expect(readme).toContain(`| ${system} | `)

  // Nothing is left of where it came from.
  for (const file of ['build.sh', 'README.md', 'wasm-serve.yaml', 'my-greeter.test.js'].slice(
    0,
    template === 'websocket' ? 3 : 4,
  )) {
    const text = readFileSync(join(folder, file), 'utf8')
    expect(text).toContain('my-greeter.wasm')
    expect(text).not.toMatch(/(?:hello|http|visits|socket)\.wasm|target\/my|\.\.\/|PLUGIN|npm ci/)
  }
  const named = expected.filter((file) => /^(?:Cargo|go\.mod|package)/.test(file))
  for (const file of named) {
    const text = readFileSync(join(folder, file), 'utf8')
    expect(text).toMatch(/^module example.com\/my-greeter$|name"? ?[=:] "my-greeter"/m)
    expect(text).not.toMatch(/"hello|hello-|MIT/)
  }
  const { devDependencies, scripts } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  expect(Object.keys(scripts)).toEqual(['dev', 'build', 'test'])
  expect(devDependencies).toHaveProperty(['wasm-serve'])
  if (template === 'websocket') expect(devDependencies).toHaveProperty(['@fastify/websocket'])

  // As if it were built.
  const plugin = new URL(`../../plugins/${BUILT[template]}.wasm`, import.meta.url)
  copyFileSync(plugin, join(folder, 'my-greeter.wasm'))
  const checked = await run(['check'], {}, { cwd: folder })
  if (template === 'stream' || template === 'websocket') return // the example has other functions
  expect([checked.code, checked.stderr]).toEqual([0, ''])
  expect(checked.stdout).toMatch(FIRST_ROUTES[template])
})

const scripts = Object.entries(SCRIPT_LANGUAGES).flatMap(([name, { extension }]) =>
  TEMPLATES.map((template) => [name, template, extension] as const),
)

test.each(scripts)('a script in %s for %s needs no build, and can be served', async (name, template, end) => {
  const cwd = emptyFolder()
  const { code, stdout, stderr } = await run(['new', name, 'my-greeter', '--template', template], {}, { cwd })
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain('npx wasm-serve dev')
  const folder = join(cwd, 'my-greeter')
  const schema = template === 'tool' ? ['my-greeter.schema.yaml'] : []
  const expected = ['.gitignore', 'README.md', `my-greeter.${end}`, 'my-greeter.test.js', 'package.json']
  expect(filesIn(folder)).toEqual([...expected, ...schema, 'wasm-serve.yaml'].sort())
  expect(readFileSync(join(folder, 'README.md'), 'utf8')).toContain('npx wasm-serve dev')
  const { name: packageName, scripts } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  expect([packageName, Object.keys(scripts)]).toEqual(['my-greeter', ['dev', 'build', 'test']])
  const checked = await run(['check'], {}, { cwd: folder })
  expect([checked.code, checked.stderr]).toEqual([0, ''])
  expect(checked.stdout).toMatch(FIRST_ROUTES[template])
  if (template === 'tool') {
    const inspected = await run(['inspect', `my-greeter.${end}`, '--json'], {}, { cwd: folder })
    expect(JSON.parse(inspected.stdout).tools).toMatchObject([{ description: 'Greets a person by name.' }])
  }
})

test('with --tool the project describes its function for agents, and serves it to them', async () => {
  const cwd = emptyFolder()
  const { code, stdout } = await run(['new', 'wat', 'greeter', '--tool'], {}, { cwd })
  expect([code, stdout]).toEqual([0, expect.stringContaining('greeter.schema.yaml')])
  const folder = join(cwd, 'greeter')
  copyFileSync(new URL('../../plugins/hello-wat/hello.wasm', import.meta.url), join(folder, 'greeter.wasm'))
  expect(await run(['check'], {}, { cwd: folder })).toMatchObject({ code: 0, stderr: '' })
  const inspected = await run(['inspect', 'greeter.wasm', '--json'], {}, { cwd: folder })
  expect(JSON.parse(inspected.stdout).tools).toMatchObject([
    {
      name: 'hello',
      description: 'Greets a person by name.',
      inputSchema: { properties: { input: { type: 'string' } }, required: ['input'] },
      outputSchema: { type: 'object', required: ['message'] },
    },
  ])
  const shown = await run(['inspect', 'greeter.wasm'], {}, { cwd: folder })
  expect(shown.stdout).toContain('hello(input): Greets a person by name.')
})
