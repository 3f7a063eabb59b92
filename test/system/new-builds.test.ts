import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { TINYGO } from '../../plugins/rebuild.ts'
import {
  assemblyscript,
  c,
  cpp,
  findToolchain,
  go,
  rust,
  type Toolchain,
  tinygo,
  wabt,
  zig,
} from '../../plugins/toolchains.ts'
import { findLanguage, type LANGUAGES, purposesOf, SCRIPT_LANGUAGES } from '../../src/cli/new/languages.ts'
import type { Purpose } from '../../src/cli/new/purposes.ts'
import { run, start } from '../support/cli-process.ts'
import { userPackage } from '../support/user-package.ts'

const exec = promisify(execFile)

let installed = ''

beforeAll(() => {
  installed = join(userPackage(), 'node_modules')
}, 120_000)

/** A new project, whose packages are installed. */
async function newProject(language: string, template: Purpose): Promise<string> {
  const outside = mkdtempSync(join(tmpdir(), 'wasm-serve-new-'))
  onTestFinished(() => rmSync(outside, { recursive: true, force: true }))
  const name = `my-${template}`
  expect((await run(['new', language, name, '--template', template], {}, { cwd: outside })).code).toBe(0)
  const folder = join(outside, name)
  await install(folder)
  return folder
}

/** What the build needs is installed by npm; the rest is there without a registry. */
async function install(folder: string): Promise<void> {
  const path = join(folder, 'package.json')
  const manifest = JSON.parse(readFileSync(path, 'utf8'))
  const { 'wasm-serve': _, ...others } = manifest.devDependencies
  if (others.assemblyscript ?? others.wabt) {
    writeFileSync(path, JSON.stringify({ ...manifest, devDependencies: others }))
    await exec('npm', ['install', '--no-audit', '--no-fund'], { cwd: folder })
    symlinkSync(installed, join(folder, '../node_modules'))
  } else symlinkSync(installed, join(folder, 'node_modules'))
}

/** What the commands of the README print, which is the same in each language. */
const PRINTS: Readonly<Record<Exclude<Purpose, 'websocket'>, readonly RegExp[]>> = {
  hello: [/^\{"message":".*Hello,? Bob!?"\}$/],
  http: [/^<h1>Hello, Bob!<\/h1>\n$/],
  kv: [/^Bob: 1\n$/],
  stream: [/^# MY-STREAM\n[\s\S]*```\n/, /^(?:event: count\nid: (\d)\ndata: \1\n\n){3}$/],
  tool: [/^\{"message":".*Hello,? Bob!?"\}$/],
}

/** Serves a project as its README says, and tries it. */
async function tryProject(folder: string, template: Purpose): Promise<void> {
  const environment = { ...process.env, TINYGO }
  await exec('npm', ['test'], { cwd: folder, env: environment })

  const server = start(['dev'], { PORT: '0', TINYGO }, { cwd: folder })
  const url = await server.listening()
  if (template === 'websocket') return trySocket(url)
  const readme = readFileSync(join(folder, 'README.md'), 'utf8')
  const printed = []
  for (const line of readme.match(/^curl .*$/gm) ?? []) {
    const command = line.replace('http://127.0.0.1:8080', url)
    printed.push((await exec('bash', ['-c', `${command} --silent --fail`], { cwd: folder })).stdout)
  }
  expect(printed).toEqual(PRINTS[template].map((text) => expect.stringMatching(text)))
}

async function trySocket(url: string): Promise<void> {
  const socket = new WebSocket(url.replace('http', 'ws'))
  await once(socket, 'open')
  const answers = []
  for (const number of ['1.5', 'x', '2']) {
    socket.send(number)
    answers.push(String((await once(socket, 'message'))[0]))
  }
  socket.close()
  expect(answers).toEqual(['1.5', 'not a number', '3.5'])
}

const TOOLCHAINS: Readonly<Record<keyof typeof LANGUAGES, Toolchain>> = {
  ...{ rust, go, tinygo, assemblyscript, c, cpp, zig },
  wat: wabt,
}

for (const [name, toolchain] of Object.entries(TOOLCHAINS)) {
  const language = findLanguage(name)
  const isThere = (await findToolchain(toolchain)) !== undefined
  for (const template of language ? purposesOf(language) : []) {
    const title = `a project in ${name} for ${template} is tested, built and served by what its README says`
    if (!isThere) test.skip(`${title}: ${toolchain.name} is missing`)
    else
      test(title, async () => {
        const folder = await newProject(name, template)
        await tryProject(folder, template)
        if (template !== 'hello') return
        const called = await run(['call', 'my-hello.wasm', '--input', 'Bob'], {}, { cwd: folder })
        expect(called.stdout).toBe('{"message":"🦀 Hello Bob"}')
      }, 600_000)
  }
}

const scripts = Object.entries(SCRIPT_LANGUAGES).flatMap(([name, language]) =>
  purposesOf(language).map((template) => [name, template, language.extension] as const),
)

test.each(scripts)(
  'a project in %s for %s is tested, built and served by what its README says',
  async (name, template, extension) => {
    const folder = await newProject(name, template)
    await tryProject(folder, template)
    const built = await run(['build', `my-${template}.${extension}`], {}, { cwd: folder })
    expect(built.stdout).toBe(`my-${template}.wasm\n`)
  },
  300_000,
)
