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
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { LANGUAGES, SCRIPT_LANGUAGES, TEMPLATES } from '../../src/cli/new/new.ts'
import { run } from '../support/cli.ts'

const NAMES = Object.keys(LANGUAGES)

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

test.each(
  NAMES,
)('a project in %s has its source, its build, a README, and a config that can be served', async (name) => {
  const cwd = emptyFolder()
  const { code, stdout, stderr } = await run(['new', name, 'my-greeter'], {}, { cwd })
  expect([code, stderr]).toEqual([0, ''])
  const language = LANGUAGES[name as keyof typeof LANGUAGES]
  const folder = join(cwd, 'my-greeter')
  const expected = [...language.files, '.gitignore', 'README.md', 'wasm-serve.yaml'].sort()
  expect(filesIn(folder)).toEqual(expected)
  for (const file of expected) expect(stdout).toContain(file)
  expect(statSync(join(folder, 'build.sh')).mode & 0o777).toBe(0o755)
  expect(expected).toContain(language.source)
  expect(readFileSync(join(folder, 'README.md'), 'utf8')).toContain(language.toolchain.get)

  // Nothing is left of where it came from.
  for (const file of ['build.sh', 'README.md', 'wasm-serve.yaml']) {
    const text = readFileSync(join(folder, file), 'utf8')
    expect(text).toContain('my-greeter.wasm')
    expect(text).not.toMatch(/hello\.wasm|target\/my|\.\.\//)
  }
  const named = expected.filter((file) => /^(?:Cargo|go\.mod|package)/.test(file))
  for (const file of named) {
    const text = readFileSync(join(folder, file), 'utf8')
    expect(text).toMatch(/^module example.com\/my-greeter$|name"? ?[=:] "my-greeter"/m)
    expect(text).not.toMatch(/"hello|hello-/)
    if (!file.includes('lock')) expect(text).not.toContain('MIT')
  }

  // As if it were built.
  const hello = fileURLToPath(new URL('../../plugins/hello/hello.wasm', import.meta.url))
  copyFileSync(hello, join(folder, 'my-greeter.wasm'))
  const checked = await run(['check'], {}, { cwd: folder })
  expect([checked.code, checked.stderr]).toEqual([0, ''])
  expect(checked.stdout).toMatch(/POST +\/ +my-greeter +hello/)
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
  const { code, stdout, stderr } = await run(['new', name, 'greeter', '--template', template], {}, { cwd })
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain('npx wasm-serve dev')
  const folder = join(cwd, 'greeter')
  const schema = template === 'tool' ? ['greeter.schema.yaml'] : []
  const expected = ['.gitignore', 'README.md', `greeter.${end}`, 'greeter.test.js', 'package.json']
  expect(filesIn(folder)).toEqual([...expected, ...schema, 'wasm-serve.yaml'].sort())
  expect(readFileSync(join(folder, 'README.md'), 'utf8')).toContain('npx wasm-serve dev')
  const { name: packageName, scripts } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  expect([packageName, Object.keys(scripts)]).toEqual(['greeter', ['dev', 'build', 'test']])
  const checked = await run(['check'], {}, { cwd: folder })
  expect([checked.code, checked.stderr]).toEqual([0, ''])
  expect(checked.stdout).toMatch(
    template === 'http' ? /\* +\/\* +greeter +handle/ : /POST +\/ +greeter +hello/,
  )
  if (template === 'tool') {
    const inspected = await run(['inspect', `greeter.${end}`, '--json'], {}, { cwd: folder })
    expect(JSON.parse(inspected.stdout).tools).toMatchObject([{ description: 'Greets a person by name.' }])
  }
})

test('a project says which tool is missing, and how to get it', async () => {
  const cwd = emptyFolder()
  const { code, stdout } = await run(['new', 'tinygo', 'greeter'], { PATH: '/nowhere' }, { cwd })
  expect([code, stdout]).toEqual([0, expect.stringContaining('Missing here: tinygo, go\n')])
  expect(stdout).toContain(LANGUAGES.tinygo.toolchain.get)
  const zig = await run(['new', 'zig', 'other'], { ZIG: `${process.execPath} -e 0` }, { cwd })
  expect(zig.stdout).not.toContain('Missing')
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
  [['js', 'a', '--template', 'kv'], /the templates of this language are hello, http, tool, not "kv"/],
  [['ts', 'a', '--template', 'stream'], /not "stream"/],
  [['ts', 'a', '--template', 'htp'], /did you mean "http"/],
  [['rust', 'a', '--template', 'http'], /templates of this language are hello, tool/],
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
