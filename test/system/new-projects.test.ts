import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { LANGUAGES, type Language, purposesOf, SCRIPT_LANGUAGES } from '../../src/cli/new/languages.ts'
import { type Purpose, TEMPLATES, templateOf } from '../../src/cli/new/purposes.ts'
import { run } from '../support/cli.ts'

/** An empty folder to work in. */
function emptyFolder(): string {
  const cwd = mkdtempSync(join(tmpdir(), 'wasm-serve-new-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  return cwd
}

/** What is in a folder, with what is in the folders in it. */
function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => statSync(join(folder, path)).isFile())
    .sort()
}

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

test('a language can be named by its title', async () => {
  const cwd = emptyFolder()
  expect((await run(['new', 'C++', 'a'], {}, { cwd })).code).toBe(0)
  expect((await run(['new', 'JavaScript', 'b'], {}, { cwd })).code).toBe(0)
  expect((await run(['new', 'ts', 'c'], {}, { cwd })).code).toBe(0)
  const made = ['a/hello.cc', 'b/b.js', 'c/c.ts'].map((file) => existsSync(join(cwd, file)))
  expect(made).toEqual([true, true, true])
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

test('a project says which tool is missing, and how to get it', async () => {
  const cwd = emptyFolder()
  const { code, stdout } = await run(['new', 'tinygo', 'greeter'], { PATH: '/nowhere' }, { cwd })
  expect([code, stdout]).toEqual([0, expect.stringContaining('Missing here: tinygo, go\n')])
  expect(stdout).toMatch(
    / Debian +https:\/\/tinygo.*\n +Fedora +https.*\n +macOS +brew .*\n +Windows +scoop /,
  )
  const zig = await run(['new', 'zig', 'other'], { ZIG: `${process.execPath} -e 0` }, { cwd })
  expect(zig.stdout).not.toContain('Missing')
})

test('a project may be named like its template', async () => {
  const cwd = emptyFolder()
  for (const [template, name] of [
    ['http', 'my-http'],
    ['websocket', 'a-websocket'],
    ['hello', 'hello'],
  ] as const) {
    expect((await run(['new', 'rust', name, '--template', template], {}, { cwd })).code).toBe(0)
    const crate = name.replaceAll('-', '_')
    const build = readFileSync(join(cwd, name, 'build.sh'), 'utf8')
    expect(build).toContain(`cp "target/$target/release/${crate}.wasm" ${name}.wasm\nchmod 644 ${name}.wasm`)
  }
})

test('a tool that is too old is missing', async () => {
  const cwd = emptyFolder()
  const bin = emptyFolder()
  const inPath = async (version: string, name: string) => {
    writeFileSync(join(bin, 'go'), `#!/bin/sh\necho go version go${version} linux/amd64\n`, { mode: 0o755 })
    return (await run(['new', 'go', name], { PATH: `${bin}:${process.env.PATH}` }, { cwd })).stdout
  }
  expect(await inPath('1.19.8', 'a')).toContain('Missing here: go 1.24\n')
  for (const [version, name] of [
    ['1.24', 'b'],
    ['2.0.1', 'c'],
  ] as const)
    expect(await inPath(version, name)).toContain('Its build needs Go, which is here\n')
})

/** In a terminal where these lines are typed. */
const typed = (lines: string, words: readonly string[] = []) => {
  const cwd = emptyFolder()
  const inputs = { cwd, input: lines, isInTerminal: true, isOutTerminal: true }
  return run(['new', ...words], {}, inputs).then((result) => ({ ...result, cwd }))
}

test('in a terminal it asks for what is missing, and again after a mistake', async () => {
  const { code, stdout, cwd } = await typed('cobol\nrust\nkvs\nkv\nA\ncounter\n')
  expect([code, existsSync(join(cwd, 'counter/src/lib.rs'))]).toEqual([0, true])
  expect(stdout).toContain('LANGUAGE')
  expect(stdout).toMatch(
    /Language \[typescript\]: new: there is no project for the language "cobol"[\s\S]*Language \[typescript\]: /,
  )
  expect(stdout).toContain('the templates of Rust are hello, http, kv, stream, websocket, tool, not "kvs"')
  expect(stdout).toMatch(/Name \[greeter\]: new: a project name has .*\nName \[greeter\]: Created counter\//)
  expect(readFileSync(join(cwd, 'counter/src/lib.rs'), 'utf8')).toContain('wasm-serve:kv')
})

test('an empty line means what is offered', async () => {
  const { code, cwd } = await typed('\n\n\n')
  expect([code, existsSync(join(cwd, 'greeter/greeter.ts'))]).toEqual([0, true])
})

test('it asks only for words that are missing', async () => {
  const { code, stdout, cwd } = await typed('page\n', ['js', '--template', 'http'])
  expect([code, existsSync(join(cwd, 'page/page.js'))]).toEqual([0, true])
  expect(stdout).not.toMatch(/Language|Template \(/)
  expect((await typed('', ['js', 'page'])).stdout).not.toContain('[')
})

test('the end of the input before the last answer makes nothing', async () => {
  const { code, stderr, cwd } = await typed('rust')
  expect([code, stderr, readdirSync(cwd)]).toEqual([2, expect.stringContaining('the input has ended'), []])
})

test('an empty folder that is there will do', async () => {
  const cwd = emptyFolder()
  mkdirSync(join(cwd, 'greeter'))
  expect((await run(['new', 'zig', 'greeter'], {}, { cwd })).code).toBe(0)
  expect(existsSync(join(cwd, 'greeter/hello.zig'))).toBe(true)
})

test('a folder with anything in it is left as it is', async () => {
  const cwd = emptyFolder()
  mkdirSync(join(cwd, 'greeter'))
  writeFileSync(join(cwd, 'greeter/.hidden'), 'mine')
  const { code, stderr } = await run(['new', 'zig', 'greeter'], {}, { cwd })
  expect([code, stderr]).toEqual([
    2,
    'wasm-serve: No project was created in greeter: the folder is not empty (WASM_SERVE_PROJECT_NOT_MADE)\n',
  ])
  expect(filesIn(cwd)).toEqual(['greeter/.hidden'])
})

test.each([
  ['a file', (path: string) => writeFileSync(path, 'mine')],
  ['a link to nowhere', (path: string) => symlinkSync('nowhere', path)],
])('where %s has the name, nothing is made', async (_what, put) => {
  const cwd = emptyFolder()
  put(join(cwd, 'greeter'))
  const { code, stderr } = await run(['new', 'zig', 'greeter'], {}, { cwd })
  expect(code).toBe(2)
  expect(stderr).toMatch(/^wasm-serve: No project was created in greeter: .*\n$/)
  expect(readdirSync(cwd)).toEqual(['greeter'])
})

test.each([
  ['..'],
  ['../a'],
  ['a/b'],
  ['/tmp/a'],
  ['A'],
  ['1a'],
  ['a b'],
  ['a-'],
  ['a--b'],
  ['a_b'],
  ['é'],
  ['a.b'],
  [''],
  ['a\nb'],
  ['a\n'],
  ['a'.repeat(65)],
])('%j is no name for a project', async (name) => {
  const cwd = emptyFolder()
  const { code, stderr } = await run(['new', 'wat', name], {}, { cwd })
  expect(code).toBe(2)
  expect(stderr).toContain('lower-case letters, digits and hyphens')
  expect(readdirSync(cwd)).toEqual([])
})

test.each([
  [['rst', 'a'], /no project for the language "rst"; did you mean "rust"\?/],
  [['cobol', 'a'], /There are: typescript, javascript, rust, go, /],
  [['__proto__', 'a'], /no project for the language/],
  [['rust', 'serde'], /already named serde/],
  [['js', 'wasm-serve'], /already named wasm-serve/],
  [['rust'], /name the project/],
  [['rust', 'a', 'b'], /not also b/],
  [['rust', 'a', '--force'], /unknown flag --force/],
  [['rust', 'a', '--port', '80'], /new has no flag --port/],
  [
    ['js', 'a', '--template', 'web'],
    /the templates of JavaScript are hello, http, kv, stream, websocket, tool, not "web"/,
  ],
  [['ts', 'a', '--template', 'htp'], /did you mean "http"/],
  [['zig', 'a', '--template', 'http'], /templates of Zig are hello, tool, not "http"/],
  [['js', 'a', '--template', 'http', '--tool'], /--tool is --template tool, not http/],
])('new %j is refused with exit 2, and makes nothing', async (words, said) => {
  const cwd = emptyFolder()
  const { code, stdout, stderr } = await run(['new', ...words], {}, { cwd })
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(said)
  expect(readdirSync(cwd)).toEqual([])
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
