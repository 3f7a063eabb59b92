import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../support/cli.ts'
import { emptyFolder, filesIn } from '../support/new-project.ts'

test('a language can be named by its title', async () => {
  const cwd = emptyFolder()
  expect((await run(['new', 'C++', 'a'], {}, { cwd })).code).toBe(0)
  expect((await run(['new', 'JavaScript', 'b'], {}, { cwd })).code).toBe(0)
  expect((await run(['new', 'ts', 'c'], {}, { cwd })).code).toBe(0)
  const made = ['a/hello.cc', 'b/b.js', 'c/c.ts'].map((file) => existsSync(join(cwd, file)))
  expect(made).toEqual([true, true, true])
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
