import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../redis.ts'
import { PROGRAMS } from '../registry-programs.ts'

/** An empty registry of packages, which trusts a workflow as npm does: it exchanges the forge's token for one of its own. */
interface NpmRegistry {
  readonly url: string
  /** The address of verdaccio itself, which answers while this process does not. */
  readonly direct: string
  /** A token of its only user. */
  readonly token: string
  /** The variables of a job that may ask the forge for its identity. */
  readonly identity: NodeJS.ProcessEnv
  /** Trusts the workflow from now on, if the package exists. */
  trust(): void
  /** Its document of a package. */
  get(
    name: string,
  ): Promise<{ readonly 'dist-tags': Record<string, string>; readonly versions: object } | undefined>
  stop(): Promise<void>
}

const EXCHANGE = '/-/npm/v1/oidc/token/exchange/package/'

/**
 * The repository is a private one, because npm asks Sigstore for provenance if it is public.
 *
 * @param node - The folder of the Node.js that runs verdaccio.
 */
export async function openNpmRegistry(folder: string, node: string): Promise<NpmRegistry> {
  const port = await freePort()
  const verdaccio = await startVerdaccio(folder, port, node)
  const ended = once(verdaccio, 'exit')
  const { token } = await addUser(port)
  const claims = Buffer.from(JSON.stringify({ repository_visibility: 'private' })).toString('base64url')
  const idToken = `e30.${claims}.none`
  let isTrusted = false

  const get = async (name: string) => {
    const answer = await fetch(`http://localhost:${port}/${name}`)
    return answer.ok ? ((await answer.json()) as Awaited<ReturnType<NpmRegistry['get']>>) : undefined
  }
  const exchange = async (asked: IncomingMessage, answer: ServerResponse, name: string) => {
    const isKnown = isTrusted && asked.headers.authorization === `Bearer ${idToken}`
    const mayPublish = isKnown && (await get(name)) !== undefined
    answer.statusCode = mayPublish ? 201 : 404
    answer.end(JSON.stringify(mayPublish ? { token } : { message: 'package not found' }))
  }
  const server = createServer((asked, answer) => {
    const { url = '', method, headers } = asked
    if (url.startsWith('/identity')) answer.end(JSON.stringify({ value: idToken }))
    else if (url.startsWith(EXCHANGE)) void exchange(asked, answer, url.slice(EXCHANGE.length))
    else {
      const passed = request({ port, path: url, method, headers }, (got) => {
        answer.writeHead(got.statusCode ?? 500, got.headers)
        got.pipe(answer)
      })
      asked.pipe(passed)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://localhost:${(server.address() as AddressInfo).port}/`
  return {
    url,
    direct: `http://localhost:${port}/`,
    token,
    identity: {
      ACTIONS_ID_TOKEN_REQUEST_URL: `${url}identity`,
      ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'of the job',
    },
    trust: () => {
      isTrusted = true
    },
    get,
    stop: async () => {
      server.closeAllConnections()
      server.close()
      verdaccio.kill('SIGKILL')
      await ended
    },
  }
}

async function startVerdaccio(folder: string, port: number, node: string): Promise<ChildProcess> {
  mkdirSync(folder)
  const config = {
    storage: join(folder, 'packages'),
    auth: { htpasswd: { file: join(folder, 'htpasswd') } },
    packages: { '**': { access: '$all', publish: '$authenticated' } },
    log: { type: 'stdout', format: 'json', level: 'warn' },
  }
  const path = join(folder, 'config.yaml')
  writeFileSync(path, JSON.stringify(config)) // JSON is YAML
  const env = { ...process.env, PATH: `${node}:${process.env.PATH}` }
  const words = ['--config', path, '--listen', `localhost:${port}`]
  const child = spawn(join(PROGRAMS, 'verdaccio'), words, { env, stdio: 'ignore' })
  const isUp = () =>
    fetch(`http://localhost:${port}/-/ping`).then(
      ({ ok }) => ok,
      () => false,
    )
  while (!(await isUp())) {
    if (child.exitCode !== null) throw new Error(`verdaccio ended with ${child.exitCode}`)
    await sleep(50)
  }
  return child
}

async function addUser(port: number): Promise<{ readonly token: string }> {
  const user = { name: 'maintainer', password: 'of the rehearsal' }
  const answer = await fetch(`http://localhost:${port}/-/user/org.couchdb.user:${user.name}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(user),
  })
  return (await answer.json()) as { token: string }
}
