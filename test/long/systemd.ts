import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { buildah, makeBaseImage, podman, startPodman } from '../support/containers.ts'
import { startLoad } from '../support/load.ts'
import { blocksOf } from '../support/pages.ts'
import { freePort } from '../support/redis.ts'
import { openChecks } from './checks.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/systemd.ts
 *
 * Boots Debian's systemd in a container, and runs the commands of docs/operate/deploy.md: installs the units behind nginx, and upgrades
 * them under load. Needs root, and apt-get install buildah podman runc debootstrap. Writes the results to
 * docs/contribute/long-tests.md, and exits with 1 if one is not as expected.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const IMAGE = 'localhost/wasm-serve-systemd'
const NAME = `wasm-serve-systemd-${process.pid}`
const SOCKET = '/run/wasm-serve-blue/http.sock'
const REQUESTS = 2_000

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-systemd-'))
const checks = openChecks()
const { add } = checks

const HELLO = 'plugins: { hello: { source: /plugins/hello.wasm } }'

/** A route for each engine. */
const ENGINES = `processes: 2
state: /var/lib/wasm-serve-blue/state
plugins: { hello: { source: /plugins/hello.wasm } }
routes:
  - { url: /inline, plugin: hello, function: hello }
  - { url: /workers, plugin: hello, function: hello, engine: workers }
  - { url: /subprocess, plugin: hello, function: hello, engine: subprocess }
`

const answerTo = (name: string) => `{"message":"🦀 Hello ${name}"}`

/** Debian with systemd and nginx, this package as npm packs it, and a plug-in. */
function buildSystem(): void {
  const [packed] = JSON.parse(
    execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
      cwd: ROOT,
      encoding: 'utf8',
    }),
  )
  writeFileSync(join(folder, 'wasm-serve.yaml'), HELLO)
  const container = buildah('from', makeBaseImage())
  buildah('copy', '--quiet', container, join(folder, packed.filename), '/packages/wasm-serve.tgz')
  buildah('copy', '--quiet', container, join(ROOT, 'plugins/hello/hello.wasm'), '/plugins/hello.wasm')
  buildah('copy', '--quiet', container, join(folder, 'wasm-serve.yaml'), '/root/wasm-serve.yaml')
  const install = `apt-get update -q && apt-get install -qy --no-install-recommends systemd nginx-light curl
    rm /etc/nginx/sites-enabled/default; ln -s /usr/local/bin/node /usr/bin/node`
  const environment = ['--env=DEBIAN_FRONTEND=noninteractive', '--env=RUNLEVEL=1']
  buildah('run', '--isolation=chroot', ...environment, container, 'bash', '-ec', install)
  buildah('commit', '--quiet', '--rm', container, IMAGE)
}

async function boot(): Promise<void> {
  // The hard limits of this process: podman asks for more than it may have.
  const limits = ['nofile=1024:1024', 'nproc=4096:4096'].map((limit) => `--ulimit=${limit}`)
  const flags = ['--detach', '--rm', `--name=${NAME}`, '--systemd=always', '--privileged', '--network=host']
  podman('run', ...flags, ...limits, IMAGE, '/lib/systemd/systemd')
  while ((await inside('systemctl is-active multi-user.target')).code !== 0) await sleep(100)
}

interface Ran {
  readonly code: unknown
  readonly output: string
}

/** Runs a script in the container. */
async function inside(script: string): Promise<Ran> {
  try {
    return { code: 0, output: await startPodman(['exec', '--workdir=/root', NAME, 'bash', '-ec', script]) }
  } catch (error) {
    if (error instanceof Error && 'code' in error && 'stderr' in error)
      return { code: error.code, output: `${error.stderr}` }
    throw error
  }
}

/** Properties of the unit, in the order of their names here. */
async function show(...names: string[]): Promise<string[]> {
  const values = names.map((name) => `systemctl show --value --property=${name} wasm-serve@blue`)
  return (await inside(values.join('; '))).output.split('\n')
}

async function ask(path: string, user = 'root'): Promise<string> {
  const curl = `curl -sS --unix-socket ${SOCKET} http://localhost/${path} -d Bob`
  return (await inside(`setpriv --reuid=${user} --regid=${user} --init-groups ${curl}`)).output
}

/** The block of shell commands of the page that has a text. nginx listens on a port of its own, and npm installs this package. */
function commands(text: string, port: number): string {
  const block = blocksOf('docs/operate/deploy.md').find(
    ({ language, code }) => language === 'sh' && code.includes(text),
  )
  if (!block) throw new Error(`docs/operate/deploy.md has no commands with ${text}`)
  return block.code
    .replaceAll(
      /(npm install --prefix \S+) wasm-serve\S*/g,
      '$1 --no-audit --no-fund /packages/wasm-serve.tgz',
    )
    .replace(
      'systemctl daemon-reload',
      `sed -i 's/listen 80;/listen 127.0.0.1:${port};/' /etc/nginx/conf.d/wasm-serve.conf\n$&`,
    )
}

async function checkInstallation(port: number): Promise<void> {
  const { code, output } = await inside(commands('groupadd', port))
  if (code !== 0) console.log(output)
  add('the commands of the page that install it', code, 0)
  add('its state', await show('ActiveState', 'SubState'), ['active', 'running'])
  const [user, pid] = await show('User', 'MainPID')
  const isStatic = (await inside(`grep ^${user}: /etc/passwd`)).code === 0
  add('its user is made by systemd', [user, isStatic], ['wasm-serve-blue', false])
  const { output: status } = await inside(`grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/${pid}/status`)
  add('no capabilities, no new privileges, and a seccomp filter', status.split(/\s+/), [
    ...['CapEff:', '0000000000000000', 'NoNewPrivs:', '1', 'Seccomp:', '2'],
  ])
  add('a member of the group may connect', await ask('hello', 'www-data'), answerTo('Bob'))
  const others = await inside(`setpriv --reuid=nobody --regid=nogroup --clear-groups test -w ${SOCKET}`)
  add('others may not', others.code, 1)
}

async function checkUpgrade(port: number): Promise<void> {
  const load = startLoad({
    url: `http://127.0.0.1:${port}/hello`,
    connections: 8,
    isAnswer: (answer, body) => answer === answerTo(body),
  })
  await load.answered(REQUESTS)
  const [before] = await show('MainPID')
  const { code } = await inside(commands('wasm-serve@latest', port))
  add('the commands of the page that upgrade it', code, 0)
  await load.answered(REQUESTS)
  const { wrong, non2xx, resets, refused } = await load.stop()
  add('wrong answers, errors and resets meanwhile', [wrong, non2xx, resets + refused], [0, 0, 0])
  const [after] = await show('MainPID')
  add('another process serves then', after !== before, true)
}

async function checkEnds(): Promise<void> {
  await inside('systemctl kill --signal=SIGKILL --kill-who=main wasm-serve@blue')
  while ((await show('NRestarts'))[0] !== '1') await sleep(100)
  while ((await show('ActiveState'))[0] !== 'active') await sleep(100)
  add('it is started again after SIGKILL', await ask('hello'), answerTo('Bob'))
  await inside('systemctl stop wasm-serve@blue')
  add('`systemctl stop`: result, exit code', await show('Result', 'ExecMainStatus'), ['success', '0'])
}

async function configure(text: string): Promise<Ran> {
  await inside(`cat > /etc/wasm-serve/wasm-serve.yaml <<'END'\n${text}\nEND`)
  return inside('systemctl restart wasm-serve@blue')
}

async function checkConfigurations(): Promise<void> {
  const { code } = await configure(ENGINES)
  add('two processes, and a state folder', code, 0)
  for (const engine of ['inline', 'workers', 'subprocess'])
    add(`the engine ${engine}`, await ask(engine), answerTo('Bob'))
  const refused = [
    ['an unknown option', 'pluginz: {}', 'WASM_SERVE_CONFIG_INVALID'],
    ['a missing plug-in', HELLO.replace('hello.wasm', 'missing.wasm'), 'WASM_SERVE_PLUGIN_UNREADABLE'],
  ] as const
  for (const [what, text, reason] of refused) {
    const { code } = await configure(text)
    const state = await show('ActiveState', 'ExecMainStatus', 'NRestarts')
    add(
      `${what}: \`systemctl restart\` fails, and it is not started again`,
      [code, ...state],
      [...[1, 'failed', '2', '0']],
    )
    const { output } = await inside('journalctl --unit=wasm-serve@blue --no-pager --lines=20')
    add(`${what}: the journal has ${reason}`, output.includes(reason), true)
  }
}

try {
  buildSystem()
  await boot()
  const port = await freePort()
  await checkInstallation(port)
  await checkUpgrade(port)
  await checkEnds()
  await checkConfigurations()
  const { output: version } = await inside('systemctl --version | head -1')
  const lines = [
    '## systemd',
    '',
    'The units behind nginx, in a container with the systemd of Debian, by the commands of [Deploy](../operate/deploy.md#systemd) (`npx tsx test/long/systemd.ts`).',
    '',
    `${renderOrigin()}. ${version}. ${checks.renderCount()}.`,
    '',
    ...checks.renderTable(),
  ]
  keepSection('systemd', lines.join('\n'))
  if (!checks.areRight) process.exitCode = 1
} finally {
  podman('rm', '--force', '--ignore', NAME)
  rmSync(folder, { recursive: true, force: true })
}
