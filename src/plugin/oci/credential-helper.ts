import { execFile } from 'node:child_process'
import { CredentialsInvalidError } from '../../errors/errors.ts'
import { parseObject } from '../../platform/json-text.ts'
import { errorCode } from '../../platform/system-errors.ts'

/** What a credential helper returns. */
interface HelperCredentials {
  /** `<token>` if the secret is an identity token. */
  readonly username: string
  readonly secret: string
}

const TIMEOUT_MS = 10_000
const MAX_OUTPUT_BYTES = 65_536

/**
 * Asks a credential helper of Docker: `docker-credential-NAME get`, with the server on its input. No shell is involved.
 *
 * @returns undefined if it has no credentials for the server.
 * @throws {@link CredentialsInvalidError} if it is missing, fails, takes more than 10 s, or answers something else.
 */
export function askHelper(
  name: string,
  server: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<HelperCredentials | undefined> {
  const program = `docker-credential-${name}`
  if (!/^[\w.-]+$/.test(name))
    throw new CredentialsInvalidError(
      'the Docker configuration',
      'the name of its credential helper is not valid',
    )
  const options = {
    env: environment,
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: MAX_OUTPUT_BYTES,
  } as const
  return new Promise((resolve, reject) => {
    const child = execFile(program, ['get'], options, (error, stdout, stderr) => {
      if (error && /credentials not found/i.test(stdout + stderr)) return resolve(undefined)
      const credentials = error ? undefined : parseCredentials(stdout)
      if (credentials) return resolve(credentials)
      // The error's own message has the output, which may be secret.
      return reject(
        new CredentialsInvalidError(program, error ? problemWith(error) : 'its output is not credentials'),
      )
    })
    child.stdin?.on('error', () => child.stdin?.destroy()) // the helper may end without reading
    child.stdin?.end(`${server}\n`)
  })
}

function parseCredentials(output: string): HelperCredentials | undefined {
  const { Username: username, Secret: secret } = parseObject(Buffer.from(output)) ?? {}
  return typeof username === 'string' && typeof secret === 'string' ? { username, secret } : undefined
}

function problemWith(error: Error & { killed?: boolean | undefined; code?: unknown }): string {
  if (errorCode(error) === 'ENOENT') return 'there is no such program in PATH'
  if (errorCode(error) === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER')
    return `its output exceeds ${MAX_OUTPUT_BYTES} bytes`
  if (error.killed) return `it was not finished after ${TIMEOUT_MS} ms`
  return `it failed (${typeof error.code === 'number' ? `exit code ${error.code}` : (errorCode(error) ?? 'ended by a signal')})`
}
