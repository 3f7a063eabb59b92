import { spawn } from 'node:child_process'
import { networkInterfaces } from 'node:os'
import { InternalError, ListenError, OptionsError, UsageError } from '../../errors/errors.ts'
import { hasOwnCode } from '../../errors/failure.ts'
import { type Config, readConfig } from '../../options/config.ts'
import { reachable } from '../banner.ts'
import { type Command, type Host, type Keyboard, renderPage, TAKES_SERVE_FLAGS } from '../command.ts'
import { explain } from '../explain.ts'
import { serve } from '../serve.ts'
import { type Serving, startServing } from '../serving.ts'
import { Builds } from './builds.ts'
import { findProject, type Project } from './project.ts'
import { openWaiting, type Waiting } from './waiting.ts'

const HELP = renderPage({
  usage: 'wasm-serve dev [script | folder] [port] [flags]',
  about:
    'Builds a project whenever a source changes, serves the result, and logs\nrequests and the log lines of guests.',
  examples: ['wasm-serve dev hello.ts', 'wasm-serve dev', 'wasm-serve dev greeter/ 9000 --host 0.0.0.0'],
  flags: {},
  more: `build.sh, cargo, go or npm run build builds a folder. Scripts need no build.\n${TAKES_SERVE_FLAGS}`,
})

/** What a developer wants. Variables of the environment win, and flags win over these. */
const DEFAULTS = {
  WASM_SERVE_HOST: '127.0.0.1',
  WASM_SERVE_WATCH: 'true',
  WASM_SERVE_LOG_LEVEL: 'debug',
  WASM_SERVE_ACCESS_LOG: 'true',
  WASM_SERVE_DRAIN_MS: '0',
  WASM_SERVE_GRACE_MS: '1000',
}

/** These are not repaired by changing a source. */
const FINAL = [ListenError, OptionsError, UsageError]

/**
 * Serves a project, and builds it when its sources change. After a build or a plug-in that fails, routes answer with the failure,
 * and their instances are kept for the next success. Before the first success it waits for a change.
 */
export const dev: Command = {
  async run(argv, own) {
    const host = { ...own, environment: { ...DEFAULTS, ...own.environment } }
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(HELP)
    if (config.version || config.printConfig) {
      await serve.run(argv, host)
      return
    }
    const project = findProject(config)
    const say = (text: string) => host.writeError(`${text}\n`)
    const colours = host.logTerminal?.colours === true
    const builds = new Builds(project.folder, project.build, own.environment, host.writeError, colours)
    host.signals.atExit(() => {
      builds.kill()
      host.keyboard?.release()
    })
    let serving: Serving | undefined
    if (host.keyboard) listen(host.keyboard, builds, host, () => serving)
    serving = await serveWhenBuilt(builds, project, config, host)
    const network = networkAddresses(serving.url)
    if (network.length > 0) host.out.write(`\nOn the network: ${network.join(' ')}\n`)
    if (host.keyboard) host.out.write(renderKeys(project))
    void follow(builds, project, serving, say)
  },
}

/** Serves a project as soon as it can be served. Meanwhile its address answers why it cannot. */
async function serveWhenBuilt(
  builds: Builds,
  project: Project,
  config: Config,
  host: Host,
): Promise<Serving> {
  let waiting: Waiting | undefined
  for (;;) {
    const failure = await builds.build()
    if (!failure) await waiting?.close()
    const served = failure ?? (await tryToServe(project, host))
    if (!(served instanceof Error)) return served
    if (!failure) waiting = undefined
    waiting ??= await openWaiting(config, host, served)
    waiting.show(served)
    const where = waiting.url === undefined ? '' : `; ${reachable(waiting.url)} shows the failure`
    host.writeError(`Waiting for a change${where}\n`)
    await builds.next(true)
  }
}

/** @returns the failure if a change of a source may help. */
async function tryToServe(project: Project, host: Host): Promise<Serving | (Error & { code: string })> {
  try {
    return await startServing(project.served(), host, true)
  } catch (error) {
    if (FINAL.some((kind) => error instanceof kind)) throw error
    host.writeError(explain(error, host.secrets))
    return hasOwnCode(error) ? error : new InternalError({ cause: error })
  }
}

async function follow(
  builds: Builds,
  { build }: Project,
  serving: Serving,
  say: (text: string) => void,
): Promise<never> {
  for (;;) {
    const isAsked = await builds.next(build !== undefined)
    const failure = await builds.build()
    if (failure) say('Responses show this failure until a build succeeds; the last version is kept')
    if (!failure && (build || isAsked)) await serving.reload()
    serving.noteBuild(failure)
  }
}

function renderKeys({ build }: Project): string {
  return `\nKeys: r ${build ? 'build' : 'reload'}, o open in a browser, c clear, q quit\n`
}

function listen(keyboard: Keyboard, builds: Builds, host: Host, serving: () => Serving | undefined): void {
  const actions: Readonly<Record<string, () => void>> = {
    r: () => builds.ask(),
    o: () => openInBrowser(serving(), host),
    c: () => host.out.write('\x1b[2J\x1b[3J\x1b[H'),
    q: () => keyboard.interrupt(),
  }
  keyboard.listen((key) => {
    if (Object.hasOwn(actions, key)) actions[key]?.()
  })
}

/** Programs that open a URL, by the platform. */
const OPENERS: Readonly<Record<string, readonly [program: string, ...words: string[]]>> = {
  darwin: ['open'],
  win32: ['cmd', '/c', 'start', '""'],
}

function openInBrowser(serving: Serving | undefined, { environment, writeError }: Host): void {
  const url = serving && (serving.consoleUrl ?? reachable(serving.url))
  if (url === undefined || url.startsWith('unix:')) {
    writeError(`Nothing that a browser can open is served${url === undefined ? ' yet' : ''}\n`)
    return
  }
  const [program, ...words] = OPENERS[process.platform] ?? ['xdg-open']
  const failed = () => writeError(`${program} cannot open a browser: open ${url}\n`)
  spawn(program, [...words, url], { env: { ...environment }, stdio: 'ignore', detached: true })
    .on('error', failed)
    .on('exit', (code) => code !== 0 && failed())
    .unref()
}

/** The addresses by which other machines reach a server that listens on all of them. */
function networkAddresses(url: string): string[] {
  if (reachable(url) === url) return []
  const { protocol, port } = new URL(url)
  return Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ family, internal }) => family === 'IPv4' && !internal)
    .map(({ address }) => `${protocol}//${address}:${port}`)
}
