import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { findToolchain, rust } from '../../plugins/toolchains.ts'
import { ROOT, userPackage } from '../support/user-package.ts'

/*
 * docs/start/tutorial.md, followed word by word in an empty folder: each shell block runs, each other block is a file or the answer
 * of the shell block before it. Three things differ from a reader's machine, each by a program of TOOLS that is first in PATH:
 * `npm install wasm-serve` installs the packed package without a network, sudo changes no user, and systemctl runs the lines of
 * the unit. Folders of the system are below a folder of the test.
 */

const PAGE = readFileSync(join(ROOT, 'docs/start/tutorial.md'), 'utf8')
const UNIT = 'wasm-serve@.service'

interface Block {
  readonly section: string
  readonly language: string
  readonly code: string
  /** The paragraph above it. */
  readonly above: string
}

/** The blocks of the page in their order. */
function blocksOf(page: string): readonly Block[] {
  return page
    .split(/^## /m)
    .slice(1)
    .flatMap((part) => {
      const section = part.slice(0, part.indexOf('\n'))
      return [...part.matchAll(/([^\n]*)\n\n```(\w+)\n(.*?)```$/gms)].map(
        ([, above = '', language = '', code = '']) => ({ section, language, code, above }),
      )
    })
    .filter(({ code }) => code.trim() !== '')
}

const TOOLS = {
  npm: `#!/usr/bin/env bash
set -eu
[ "$1" = install ] || exit 1
prefix=.
if [ "$2" = --prefix ]; then prefix=$3; fi
cp -a "$PACKAGE/node_modules" "$prefix/"
mkdir "$prefix/node_modules/.bin"
ln -s ../wasm-serve/dist/cli.js "$prefix/node_modules/.bin/wasm-serve"
chmod +x "$prefix/node_modules/wasm-serve/dist/cli.js"
`,
  sudo: `#!/bin/sh
exec "$@"
`,
  systemctl: `#!/usr/bin/env bash
set -eu
if [ "$*" = daemon-reload ]; then exit 0; fi
[ "$*" = 'enable --now wasm-serve@blue' ]
line() {
  sed -n "s/^$1=//p" "$SYSTEM/etc/systemd/system/${UNIT}" |
    sed "s#%t#$SYSTEM/run#g; s#%i#blue#g; s#/usr/bin/node#$NODE#; s#/\\(opt\\|etc\\)/wasm-serve/#$SYSTEM&#g"
}
mkdir -p "$SYSTEM/run/wasm-serve-blue"
eval "exec $(line ExecStart)" > "$SYSTEM/log" 2>&1 &
echo $! > "$SYSTEM/pid"
export MAINPID=$!
eval "timeout 60 $(line ExecStartPost)" || { cat "$SYSTEM/log"; exit 1; }
`,
}

/** Folders of the system that the page names. */
const SYSTEM_FOLDERS = /\/(?:opt\/wasm-serve|etc\/wasm-serve|etc\/systemd|run\/wasm-serve)/g

async function follow(blocks: readonly Block[], installed: string): Promise<void> {
  const outside = mkdtempSync(join(tmpdir(), 'tut-')) // short: a socket's path has at most 107 bytes
  onTestFinished(() => rmSync(outside, { recursive: true, force: true }))
  const [tools, system] = [join(outside, 'tools'), join(outside, 'sys')]
  for (const folder of [tools, system]) mkdirSync(folder)
  for (const [name, script] of Object.entries(TOOLS)) {
    writeFileSync(join(tools, name), script)
    chmodSync(join(tools, name), 0o755)
  }
  onTestFinished(() => endProcess(join(system, 'pid')))

  const inherited = Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_'))
  const env = {
    ...Object.fromEntries(inherited),
    PATH: `${tools}${delimiter}${process.env.PATH}`,
    npm_config_offline: 'true', // npx has to find the command in the folder
    npm_config_update_notifier: 'false',
    PACKAGE: installed,
    SYSTEM: system,
    NODE: process.execPath,
    PORT: '0',
  }
  let cwd = outside
  let url = ''
  let printed = ''
  let section = ''
  let stop: (() => Promise<void>) | undefined
  for (const block of blocks) {
    if (block.section !== section) await stop?.()
    if (block.section !== section) stop = undefined
    section = block.section
    const file = /`([\w./-]+)`.*:$/.exec(block.above)?.[1]
    if (block.language === 'sh') {
      const script = block.code
        .replaceAll('http://127.0.0.1:8080', url)
        .replaceAll(SYSTEM_FOLDERS, (folder) => system + folder)
      if (block.above.includes('test: this command keeps running')) {
        const server = await serve(script, cwd, env)
        url = server.url
        stop = server.stop
        continue
      }
      printed = await runBlock(script, cwd, env)
      const [, folder] = /^cd (\w+)$/m.exec(script) ?? []
      if (folder !== undefined) cwd = join(cwd, folder)
    } else if (['json', 'text'].includes(block.language)) {
      expect(printed.trimEnd(), `what this prints: ${block.code}`).toBe(block.code.trimEnd())
    } else if (file !== undefined) {
      expect(existsSync(join(cwd, file)), file).toBe(!block.above.startsWith('Save'))
      writeFileSync(join(cwd, file), block.code)
    } else throw new Error(`what is this block for? ${block.above}`)
  }
  await stop?.()
}

async function runBlock(script: string, cwd: string, env: NodeJS.ProcessEnv): Promise<string> {
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { cwd, env })
  return stdout
}

/** Starts a server as in a terminal of its own; Ctrl-C ends it. */
async function serve(script: string, cwd: string, env: NodeJS.ProcessEnv) {
  const child = spawn('bash', ['-c', script], {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close').then(() => undefined)
  let running = true
  closed.then(() => (running = false))
  const signal = (name: NodeJS.Signals) => {
    if (child.pid !== undefined && running) process.kill(-child.pid, name)
  }
  onTestFinished(() => signal('SIGKILL'))
  for await (const line of createInterface(child.stdout)) {
    const [, url] = /^wasm-serve listens on (\S+?)\/?$/.exec(line) ?? []
    if (url === undefined) continue
    child.stdout.resume()
    const stop = async () => {
      signal('SIGINT')
      await closed
    }
    return { url, stop }
  }
  throw new Error('the server of the tutorial ended before it listened')
}

function endProcess(pidFile: string): void {
  if (existsSync(pidFile)) process.kill(Number(readFileSync(pidFile, 'utf8')), 'SIGKILL')
}

const hasRust = await findToolchain(rust)
const TITLE = 'the tutorial does what it says'

if (hasRust === undefined) test.skip(`${TITLE}: ${rust.name} is missing: ${rust.get}`)
else test(TITLE, () => follow(blocksOf(PAGE), userPackage()), 600_000)
