import { execFile } from 'node:child_process'
import { CredentialsInvalidError } from '../../errors/errors.ts'
import { parseFirstObject } from '../../platform/json-text.ts'
import { errorCode } from '../../platform/system-errors.ts'
import { printable } from '../../platform/text.ts'

/** What a credential helper returns. */
interface HelperCredentials {
  /** `<token>` if the secret is an identity token. */
  readonly username: string
  readonly secret: string
}

const TIMEOUT_MS = 10_000
const MAX_OUTPUT_BYTES = 65_536
const MAX_REASON = 300

/** The program of a credential helper. */
export function helperProgram(name: string): string {
  return `docker-credential-${name}`
}

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
  const program = helperProgram(name)
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
      // A helper that has nothing may also say so with empty values.
      if (credentials) return resolve(credentials.username || credentials.secret ? credentials : undefined)
      const problem = error ? problemWith(error) : 'its output is not credentials'
      const reason = reasonIn(typeof error?.code === 'number' ? stdout : '', stderr)
      return reject(new CredentialsInvalidError(program, problem + reason))
    })
    child.stdin?.on('error', () => child.stdin?.destroy()) // the helper may end without reading
    child.stdin?.end(`${server}\n`)
  })
}

/** The first value counts, as in Docker: some helpers write more lines. */
function parseCredentials(output: string): HelperCredentials | undefined {
  const { Username: username, Secret: secret } = parseFirstObject(output) ?? {}
  return typeof username === 'string' && typeof secret === 'string' ? { username, secret } : undefined
}

function problemWith(error: Error & { killed?: boolean | undefined; code?: unknown }): string {
  if (errorCode(error) === 'ENOENT') return 'there is no such program in PATH'
  if (errorCode(error) === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER')
    return `its output exceeds ${MAX_OUTPUT_BYTES} bytes`
  if (error.killed) return `it did not finish within ${TIMEOUT_MS} ms`
  return `it failed (${typeof error.code === 'number' ? `exit code ${error.code}` : (errorCode(error) ?? 'killed by a signal')})`
}

/**
 * The first line of what a helper says on its error output. A helper made with Docker's library says it on its output, which is not
 * shown if it has a brace: it may be credentials.
 */
function reasonIn(stdout: string, stderr: string): string {
  const text = stderr.trim() || (stdout.includes('{') ? '' : stdout.trim())
  const [line = ''] = text.split('\n', 1)
  return line === '' ? '' : `: ${printable(line).slice(0, MAX_REASON)}`
}
