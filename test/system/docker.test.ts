import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { jail, NODE_FOLDER } from '../support/jail.ts'
import { describeWith } from '../support/tools.ts'
import { ROOT } from '../support/user-package.ts'

/*
 * There is no Docker here: the lines of the Dockerfile are done one by one, in a folder for each stage, and what comes out is run
 * as nobody on a read-only root.
 */

interface Line {
  readonly word: string
  readonly rest: string
}

const STAGES = stagesOf(readFileSync(join(ROOT, 'deploy/docker/Dockerfile'), 'utf8'))
const sent = readFileSync(join(ROOT, 'deploy/docker/Dockerfile.dockerignore'), 'utf8')
  .split('\n')
  .flatMap((line) => (line.startsWith('!') ? [line.slice(1)] : []))

function stagesOf(text: string): Line[][] {
  const stages: Line[][] = []
  for (const line of text.split('\n')) {
    const [, word = '', rest = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? []
    if (word === 'FROM') stages.push([])
    else if (word !== '') stages.at(-1)?.push({ word, rest })
  }
  return stages
}

describeWith(['mounts'], () => {
  test('what the Dockerfile makes serves as nobody, on a read-only root, and is healthy', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-image-'))
    onTestFinished(() => rmSync(folder, { recursive: true }), 60_000) // there is a node_modules in it
    const [modules, build, image] = STAGES
    const makeStage = (name: string, lines: readonly Line[] = []) => make(join(folder, name), lines, folder)
    await Promise.all([makeStage('modules', modules), makeStage('build', build)])
    await makeStage('image', image)

    const restOf = (word: string) => image?.find((line) => line.word === word)?.rest ?? ''
    expect(restOf('USER')).toBe('node')
    const env = Object.fromEntries(
      restOf('ENV')
        .split(' ')
        .map((pair) => pair.split('=')),
    )
    const inside = jail({ [join(folder, 'image/app')]: '/app', [join(folder, 'image/plugins')]: '/plugins' })
    const surroundings = {
      cwd: '/',
      env: {
        ...env,
        PATH: `${NODE_FOLDER}:${process.env.PATH}`,
        WASM_SERVE_PORT: '0',
        WASM_SERVE_ADMIN: '127.0.0.1:0',
      },
    }
    const words = [...JSON.parse(restOf('ENTRYPOINT')), ...JSON.parse(restOf('CMD'))]
    const [program = '', ...args] = [...inside, ...words]
    const server = spawn(program, args, { ...surroundings, stdio: ['ignore', 'pipe', 'pipe'] })
    onTestFinished(() => void server.kill('SIGKILL'))
    const ended = once(server, 'exit')
    const admin = await said(server.stderr, /admin listener is on \S+:(\d+),/)
    const port = await said(server.stdout, /listens on http:\/\/0\.0\.0\.0:(\d+)/)
    const answer = await fetch(`http://127.0.0.1:${port}/hello`, { method: 'POST', body: 'Bob' })
    expect([answer.status, await answer.json()]).toEqual([200, { message: '🦀 Hello Bob' }])

    const [node, ...check] = JSON.parse(restOf('HEALTHCHECK').replace(/^.*? CMD /, ''))
    expect(node).toBe('node')
    const isHealthy = async () => {
      const asked = check.map((word: string) => word.replace(':9090/', `:${admin}/`))
      const [code] = await once(spawn(process.execPath, asked, { stdio: 'inherit' }), 'exit')
      return code === 0
    }
    expect(await isHealthy()).toBe(true)
    server.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
    expect(await isHealthy()).toBe(false)
  }, 300_000) // npm and tsc take their time on a busy machine

  /** Does the lines of a stage in a folder, which is its root. */
})

async function make(root: string, lines: readonly Line[], stages: string): Promise<void> {
  let folder = root
  for (const { word, rest } of lines) {
    if (word === 'WORKDIR') {
      folder = join(root, rest)
      mkdirSync(folder, { recursive: true })
    }
    if (word === 'COPY') copy(rest.split(' '), root, folder, stages)
    if (word === 'RUN') await runLine(rest, folder)
  }
}

function copy(words: readonly string[], root: string, folder: string, stages: string): void {
  const [, stage] = /^--from=(\w+)$/.exec(words[0] ?? '') ?? []
  const names = stage === undefined ? words : words.slice(1)
  const to = names.at(-1) ?? ''
  for (const name of names.slice(0, -1)) {
    if (stage === undefined) expect(sent, '.dockerignore').toContain(name)
    const from = stage === undefined ? join(ROOT, name) : join(stages, stage, name)
    expect(existsSync(from), name).toBe(true)
    const place = to.startsWith('/') ? join(root, to) : join(folder, to)
    mkdirSync(dirname(place), { recursive: true })
    cpSync(from, to.endsWith('/') ? join(place, name) : place, { recursive: true, verbatimSymlinks: true })
  }
}

/** What a plain `npm ci` makes is here already. */
async function runLine(line: string, cwd: string): Promise<void> {
  const script = /^npm ci(?! --omit)/.test(line) ? `ln -s ${join(ROOT, 'node_modules')} .` : line
  const env = { ...process.env, PACKAGES: '', npm_config_prefer_offline: 'true' }
  await promisify(execFile)('sh', ['-c', script], { cwd, env })
}

async function said(stream: NodeJS.ReadableStream, text: RegExp): Promise<string> {
  for await (const line of createInterface(stream)) {
    const [, found] = text.exec(line) ?? []
    if (found !== undefined) {
      stream.resume()
      return found
    }
  }
  throw new Error(`ended without ${text}`)
}
