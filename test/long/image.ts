import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { CLI } from '../support/cli.ts'
import { confinementOf, mostMemoryOf } from '../support/confinement.ts'
import {
  buildah,
  buildImage,
  type Container,
  descendantsOf,
  endContainers,
  makeBaseImage,
  podman,
  runContainer,
} from '../support/containers.ts'
import { startLoad } from '../support/load.ts'
import { freePort } from '../support/redis.ts'
import { openRegistryServer } from '../support/registry-server.ts'
import { openChecks } from './checks.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/image.ts
 *
 * Builds the image twice, and runs it as an orchestrator does: as its user, without capabilities, on a read-only root, in 256 MiB.
 * Needs root, and apt-get install buildah podman runc debootstrap docker-registry. Writes the results to
 * docs/contribute/long-tests.md, and exits with 1 if one is not as expected.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const HELLO = join(ROOT, 'plugins/hello/hello.wasm')
const IMAGE = 'localhost/wasm-serve:test'
const USER = 10_001
const REQUESTS = 5_000
const HELD = 20
const STARTS = 10

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-image-'))
chmodSync(folder, 0o755) // the user of the image reads it

const checks = openChecks()
const { add } = checks

/* Build */

/** Builds it, and again from a copy in another folder, with other times and narrower modes, as of another user's clone. */
function buildTwice(base: string): void {
  const digest = buildImage(IMAGE, base)
  const copy = join(folder, 'copy')
  for (const path of ['console', 'deploy/docker', 'plugins/hello', 'scripts', 'src'])
    cpSync(join(ROOT, path), join(copy, path), { recursive: true })
  for (const name of [
    'package.json',
    'package-lock.json',
    '.npmrc',
    'LICENSE',
    'tsconfig.json',
    'tsconfig.types.json',
  ])
    copyFileSync(join(ROOT, name), join(copy, name))
  execFileSync('chmod', ['-R', 'go=', copy])
  const other = 'localhost/wasm-serve:again'
  add(
    'a build from a copy with other times and modes has the same digest',
    buildImage(other, base, copy),
    digest,
  )
  buildah('rmi', other)
}

interface Tree {
  readonly bytes: number
  /** Programs, but for shared libraries. */
  readonly programs: readonly string[]
  /** Files that another user may write, or that belong to another one than root, or that change the user. */
  readonly loose: readonly string[]
}

function treeOf(root: string): Tree {
  let bytes = 0
  const [programs, loose]: [string[], string[]] = [[], []]
  for (const name of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    const { mode, uid, size, isFile } = statOf(join(root, name))
    if (isFile) bytes += size
    if (isFile && mode & 0o111 && !/\.so(\.|$)/.test(name)) programs.push(name)
    if (uid !== 0 || mode & 0o6022) loose.push(`${name} ${uid} ${(mode & 0o7777).toString(8)}`)
  }
  return { bytes, programs: programs.sort(), loose: loose.sort() }
}

function statOf(path: string) {
  const stat = lstatSync(path)
  return { mode: stat.mode, uid: stat.uid, size: stat.size, isFile: stat.isFile() }
}

/** `name@version` of each package in a `node_modules`. */
function packagesIn(root: string): string[] {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
  const manifests = files.filter((name) =>
    /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/.test(`node_modules/${name}`),
  )
  const names = manifests.map((name) => {
    const { name: own, version } = JSON.parse(readFileSync(join(root, name), 'utf8'))
    return `${own}@${version}`
  })
  return [...new Set(names)].sort()
}

/** Reads the files of the image. @returns their size in bytes, and the version of Node.js. */
function checkFiles(): { readonly bytes: number; readonly node: string } {
  const container = buildah('from', '--pull-never', IMAGE)
  const root = buildah('mount', container)
  try {
    const { bytes, programs, loose } = treeOf(root)
    const started = programs.filter((name) => !name.includes('ld-linux'))
    add('the only programs are Node.js and an init', started, ['usr/bin/tini', 'usr/local/bin/node'])
    const own = [`cache ${USER} 700`, `state ${USER} 700`, 'tmp 0 1777']
    add('files belong to root, who alone may write them, but for /cache, /state and /tmp', loose, own)
    const licences = ['app/LICENSE', 'app/node_modules/jose/LICENSE.md', 'usr/local/LICENSE']
    add(
      'licences of wasm-serve, of its packages and of Node.js are in it',
      licences.map((path) => existsSync(join(root, path))),
      licences.map(() => true),
    )
    const { components } = JSON.parse(readFileSync(join(root, 'usr/share/sbom/wasm-serve.cdx.json'), 'utf8'))
    const purls: string[] = components.map(({ purl }: { purl: string }) => decodeURIComponent(purl))
    const npm = purls.flatMap((purl) => (purl.startsWith('pkg:npm/') ? [purl.slice('pkg:npm/'.length)] : []))
    add(
      'the SBOM lists each package of npm in it',
      [...new Set(npm)].sort(),
      packagesIn(join(root, 'app/node_modules')),
    )
    const parts = purls.filter((purl) => !purl.startsWith('pkg:npm/')).map((purl) => purl.replace(/@.*/, ''))
    const system = [
      'generic/node',
      'deb/debian/libc6',
      'deb/debian/libgcc-s1',
      'deb/debian/libstdc++6',
      'deb/debian/tini',
    ]
    add(
      'the SBOM lists Node.js, the init and their libraries',
      parts.sort(),
      system.map((part) => `pkg:${part}`).sort(),
    )
    const node = purls.find((purl) => purl.startsWith('pkg:generic/node@'))?.replace(/.*@/, '') ?? ''
    return { bytes, node }
  } finally {
    buildah('umount', container)
    buildah('rm', container)
  }
}

/* Run */

interface Server extends Container {
  readonly url: string
  readonly probes: string
  /** From the start of `podman run` until it was ready. */
  readonly runMs: number
  /** From the start of process 1 until it was ready. */
  readonly startMs: number
}

async function isReady(probes: string): Promise<boolean> {
  return fetch(`${probes}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  )
}

/** Waits until it holds, and at most 30 seconds. */
async function until(condition: () => boolean | Promise<boolean>): Promise<boolean> {
  for (const begun = performance.now(); performance.now() - begun < 30_000; await sleep(2))
    if (await condition()) return true
  return false
}

async function serve(words: readonly string[], flags: readonly string[] = []): Promise<Server> {
  const [port, probes, admin] = [await freePort(), await freePort(), await freePort()]
  const addresses = { PORT: port, PROBES: `127.0.0.1:${probes}`, ADMIN: `127.0.0.1:${admin}` }
  const variables = Object.entries(addresses).map(([name, value]) => `--env=WASM_SERVE_${name}=${value}`)
  const begun = performance.now()
  const container = await runContainer(IMAGE, [...variables, ...flags], words)
  const server = { ...container, url: `http://127.0.0.1:${port}`, probes: `http://127.0.0.1:${probes}` }
  const failed = container.ended.then((code) => Promise.reject(new Error(`${code}: ${server.output()}`)))
  const ready = until(() => isReady(server.probes))
  if (!(await Promise.race([ready, failed]))) throw new Error(`is not ready: ${server.output()}`)
  failed.catch(() => undefined) // it may end from now on
  const now = performance.now()
  return { ...server, runMs: now - begun, startMs: now - server.startedAt }
}

/** Ends it with SIGTERM. */
async function end({ kill, ended }: Container): Promise<number> {
  kill('SIGTERM')
  return ended
}

const answerTo = (name: string) => `{"message":"🦀 Hello ${name}"}`

function startHellos(url: string) {
  return startLoad({ url, connections: 20, isAnswer: (answer, name) => answer === answerTo(name) })
}

/** Serves so many requests, each with its own body, and ends. */
async function checkServed(what: string, url: string, server: Server): Promise<void> {
  const load = startHellos(server.url + url)
  await load.answered(REQUESTS)
  const { answers, wrong, non2xx, resets, refused } = await load.stop()
  const lost = wrong + non2xx + resets + refused
  add(
    `${what}: ${REQUESTS.toLocaleString('en')} requests, each with its own body`,
    answers >= REQUESTS && lost,
    0,
  )
  add(`${what}: SIGTERM, exit code`, await end(server), 0)
}

async function checkSources(): Promise<void> {
  await checkServed('the plug-in of the image', '/hello', await serve([]))

  const plugins = join(folder, 'plugins')
  mkdirSync(plugins)
  copyFileSync(HELLO, join(plugins, 'greet.wasm'))
  await checkServed(
    'a volume (`-v plugins:/plugins`)',
    '/greet',
    await serve([], [`--volume=${plugins}:/plugins:ro`]),
  )

  const config = join(folder, 'wasm-serve.yaml')
  writeFileSync(config, 'routes:\n  - {plugin: /plugins/hello.wasm, url: /configured}\n')
  const mounted = `--volume=${config}:/etc/wasm-serve.yaml:ro`
  const byFile = await serve(['-c', '/etc/wasm-serve.yaml'], [mounted])
  await checkServed('a configuration file', '/configured', byFile)
  const byFlags = await serve(['/plugins/hello.wasm', '--url', '/flags', '--workers', '1'])
  await checkServed('flags', '/flags', byFlags)
  const byVariables = await serve(['/plugins/hello.wasm'], ['--env=WASM_SERVE_URL=/variables'])
  await checkServed('variables', '/variables', byVariables)

  const registry = await openRegistryServer('docker-registry')
  try {
    execFileSync('node', [CLI, 'push', HELLO, `oci://${registry.host}/hello:1`], { stdio: 'ignore' })
    await checkServed('`oci://` of a registry', '/', await serve([`oci://${registry.host}/hello:1`]))
  } finally {
    await registry.stop()
  }
}

async function checkState(): Promise<void> {
  const volume = 'wasm-serve-image-test'
  podman('volume', 'create', volume)
  try {
    const flags = [`--volume=${volume}:/state`]
    const server = await serve(['/plugins', '--state', '/state'], flags)
    const code = await end(server)
    add('a new volume at /state keeps the state folder, without a change of its owner', code, 0)
  } finally {
    podman('volume', 'rm', volume)
  }
}

/** What the kernel says of the process of Node.js, and of its limits. @returns the most memory that it had, in bytes. */
async function checkConfinement(): Promise<number> {
  const server = await serve([])
  const [node] = descendantsOf(server.pid)
  const confinement = confinementOf(node?.pid ?? 0)
  add('user and group', confinement.ids, [USER])
  add('capabilities', confinement.capabilities, ['0000000000000000'])
  const { hasNoNewPrivileges, hasSeccompFilter } = confinement
  add('no new privileges, and a seccomp filter', [hasNoNewPrivileges, hasSeccompFilter], [true, true])
  add('the root is read-only', confinement.isRootReadOnly, true)
  add('the memory limit', confinement.memoryLimit, 256 * 1024 * 1024)
  add('the health check', server.exec('/usr/local/bin/node', '/app/health.mjs'), 0)
  add('there is no shell', server.exec('/bin/sh', '-c', 'true') !== 0, true)
  const loads = server.exec('/usr/local/bin/node', '--eval', LOAD_ALL)
  add('each package that wasm-serve uses can be loaded, after what no server needs was removed', loads, 0)
  const load = startHellos(`${server.url}/hello`)
  await load.answered(REQUESTS)
  await load.stop()
  const peak = mostMemoryOf(server.pid)
  await end(server)
  return peak
}

/** Packages that the image lacks would end it with 1, but for those that it is not made with. */
const LOAD_ALL = `
  const app = require('node:module').createRequire('/app/package.json')
  const { dependencies, peerDependencies } = app('./package.json')
  const without = ['autocannon', 'esbuild', 'lmdb', '@opentelemetry/sdk-node']
  for (const name of Object.keys({ ...dependencies, ...peerDependencies }))
    if (!without.includes(name)) import(app.resolve(name))
`

/** Requests whose bodies are not complete when the signal arrives, and a load beside them. */
async function checkDrain(): Promise<void> {
  const server = await serve(['/plugins', '--drain-ms', '1000'])
  const held = Array.from({ length: HELD }, (_, number) => {
    const name = `held-${number}`
    const call = request(`${server.url}/hello`, {
      method: 'POST',
      headers: { 'content-length': name.length },
    })
    call.write(name.slice(0, 3))
    const answer = once(call, 'response').then(
      async ([response]) => (await text(response)) === answerTo(name),
    )
    return { finish: () => call.end(name.slice(3)), answer: answer.catch(() => false) }
  })
  const load = startHellos(`${server.url}/hello`)
  await load.answered(REQUESTS)
  server.kill('SIGTERM')
  const isNotReady = await until(async () => (await fetch(`${server.probes}/readyz`)).status === 503)
  add('readyz after SIGTERM: 503', isNotReady, true)
  add('the health check while it drains', server.exec('/usr/local/bin/node', '/app/health.mjs'), 0)
  const { wrong, non2xx, resets, closing } = await load.ended
  add('SIGTERM under load: wrong answers, errors, resets', [wrong, non2xx, resets], [0, 0, 0])
  add('SIGTERM under load: answers say `Connection: close`', closing > 0, true)
  for (const { finish } of held) finish()
  const answers = await Promise.all(held.map(({ answer }) => answer))
  add(`SIGTERM: ${HELD} requests in flight are answered`, answers.filter(Boolean).length, HELD)
  add('SIGTERM with requests in flight, exit code', await server.ended, 0)
}

/** A plug-in that never arrives. */
async function checkEarlySignal(): Promise<void> {
  const silent = createServer(() => undefined).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const arrived = once(silent, 'connection')
  const container = await runContainer(IMAGE, [], [`oci://localhost:${port}/hello:1`])
  const [socket] = await arrived
  // podman knows an exit code only of a container that it has noted as running.
  await until(() => container.exec('/usr/local/bin/node', '--version') === 0)
  const begun = performance.now()
  const code = await end(container)
  add('SIGTERM while a plug-in is pulled, exit code', code, 143)
  add('SIGTERM while a plug-in is pulled ends it within 2 seconds', performance.now() - begun < 2_000, true)
  socket.destroy()
  silent.close()
}

/** Serving processes that are killed leave the processes of their guests to process 1. */
async function checkOrphans(): Promise<void> {
  const server = await serve(['/plugins', '--processes', '2', '--engine', 'subprocess'])
  for (const name of ['a', 'b', 'c', 'd'])
    await (await fetch(`${server.url}/hello`, { method: 'POST', body: name })).text()
  const primary = descendantsOf(server.pid).find(({ parent }) => parent === server.pid)?.pid ?? 0
  const childrenOf = (pid: number) => descendantsOf(pid).filter(({ parent }) => parent === pid)
  const before = childrenOf(primary)
  const guests = before.flatMap(({ pid }) => childrenOf(pid))
  add('processes of guests run below the serving processes', guests.length >= 2, true)
  for (const { pid } of before) process.kill(pid, 'SIGKILL')
  const isClean = () => {
    const all = descendantsOf(server.pid)
    const isGone = [...before, ...guests].every(({ pid }) => all.every((each) => each.pid !== pid))
    return isGone && all.every(({ state }) => state !== 'Z') && childrenOf(primary).length === 2
  }
  add('their processes are reaped after the serving processes were killed', await until(isClean), true)
  await until(() => isReady(server.probes))
  const answer = await fetch(`${server.url}/hello`, { method: 'POST', body: 'e1' })
  add('the server serves again', await answer.text(), answerTo('e1'))
  add('SIGTERM with processes, exit code', await end(server), 0)
}

/* Figures */

/** The size in a registry: compressed layers. */
async function compressedBytes(): Promise<number> {
  const registry = await openRegistryServer('docker-registry')
  try {
    buildah('push', '--quiet', '--tls-verify=false', IMAGE, `docker://${registry.host}/wasm-serve:1`)
    const accept = 'application/vnd.oci.image.manifest.v1+json'
    const answer = await fetch(`http://${registry.host}/v2/wasm-serve/manifests/1`, { headers: { accept } })
    const { layers } = (await answer.json()) as { layers: readonly { size: number }[] }
    return layers.reduce((sum, { size }) => sum + size, 0)
  } finally {
    await registry.stop()
  }
}

interface Start {
  readonly runMs: number
  readonly startMs: number
}

/** The median and the fastest of several starts. */
interface Starts {
  readonly median: Start
  readonly fastest: Start
}

async function measureStarts(words: readonly string[]): Promise<Starts> {
  const starts: Start[] = []
  for (let start = 0; start < STARTS; start++) {
    const server = await serve([...words, '--drain-ms', '0'])
    starts.push(server)
    await end(server)
  }
  const nth = (index: number, of: (start: Start) => number) =>
    starts.map(of).sort((a, b) => a - b)[index] ?? NaN
  const at = (index: number): Start => ({
    runMs: nth(index, ({ runMs }) => runMs),
    startMs: nth(index, ({ startMs }) => startMs),
  })
  return { median: at(STARTS / 2), fastest: at(0) }
}

/** What is measured of the image. */
interface ImageMeasurements {
  readonly bytes: number
  readonly compressed: number
  readonly alone: Starts
  readonly processes: Starts
  readonly peak: number
}

function renderFigures({ bytes, compressed, alone, processes, peak }: ImageMeasurements): string {
  const times = ({ median, fastest }: Starts, name: keyof Start) =>
    `${Math.round(median[name])} ms (${Math.round(fastest[name])} ms)`
  const mib = (size: number) => `${Math.round(size / 1024 / 1024)} MiB`
  return [
    `Measured with ${podman('--version')} and runc:`,
    '',
    '| figure | value |',
    '| --- | ---: |',
    `| files of the image | ${mib(bytes)} |`,
    `| in a registry, compressed | ${mib(compressed)} |`,
    `| from the start of process 1 to the first 200 of \`/readyz\`, median of ${STARTS} (fastest) | ${times(alone, 'startMs')} |`,
    `| the same with \`--processes 2\` | ${times(processes, 'startMs')} |`,
    `| from \`podman run\` to the first 200 of \`/readyz\` | ${times(alone, 'runMs')} |`,
    `| the most memory of the container, with its cache of files, ${REQUESTS.toLocaleString('en')} requests | ${mib(peak)} |`,
  ].join('\n')
}

function render(node: string): string {
  return [
    '## The image',
    '',
    'The image is built twice and run without capabilities, on a read-only root, in 256 MiB (`npx tsx test/long/image.ts`).',
    '',
    `${renderOrigin()}; in the image Node v${node} on files of Debian bookworm. ${checks.renderCount()}.`,
    '',
    ...checks.renderTable(),
  ].join('\n')
}

try {
  buildTwice(makeBaseImage())
  const { bytes, node } = checkFiles()
  await checkSources()
  await checkState()
  const peak = await checkConfinement()
  await checkDrain()
  await checkEarlySignal()
  await checkOrphans()
  const compressed = await compressedBytes()
  const alone = await measureStarts(['/plugins'])
  const processes = await measureStarts(['/plugins', '--processes', '2'])
  const figures = renderFigures({ bytes, compressed, alone, processes, peak })
  keepSection('image', `${render(node)}\n\n${figures}`)
  if (!checks.areRight) process.exitCode = 1
} finally {
  await endContainers()
  buildah('rmi', '--force', IMAGE)
  rmSync(folder, { recursive: true, force: true })
}
