import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const FOLDER = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'wasm-serve-test-tools')

/** The folder of the programs. */
export const PROGRAMS = join(FOLDER, 'bin')

/** The version of Google's libraries and programs for registries. */
export const GOOGLE = 'v0.22.1'

/** How each program is built: a command of the shell, in the folder `FOLDER`. */
const BUILDS = {
  crane: `go install github.com/google/go-containerregistry/cmd/crane@${GOOGLE}`,
  distribution:
    'go install github.com/distribution/distribution/v3/cmd/registry@v3.1.2 && mv bin/registry bin/distribution',
  'referrers-registry': `cd referrers-registry && rm -f go.mod go.sum && go mod init referrers-registry && go get github.com/google/go-containerregistry@${GOOGLE} && go build -o ../bin/ .`,
  cosign3: 'go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3 && mv bin/cosign bin/cosign3',
  cosign2: 'go install github.com/sigstore/cosign/v2/cmd/cosign@v2.6.5 && mv bin/cosign bin/cosign2',
  wkg: 'cargo install --root . wkg@0.16.1',
  'oras-python': String.raw`python3 -m venv oras && oras/bin/pip -q install oras==0.2.43 && printf '#!/bin/sh\nexec "$(dirname "$0")/../oras/bin/python" "$@"\n' > bin/oras-python && chmod +x bin/oras-python`,
} as const

export type RegistryProgram = keyof typeof BUILDS

export const REGISTRY_PROGRAMS = Object.keys(BUILDS) as readonly RegistryProgram[]

/** Builds a program from the registry of its packages, unless it was built before. */
export async function buildProgram(name: RegistryProgram): Promise<void> {
  if (existsSync(join(PROGRAMS, name))) return
  mkdirSync(PROGRAMS, { recursive: true })
  const main = fileURLToPath(new URL('referrers-registry', import.meta.url))
  cpSync(main, join(FOLDER, 'referrers-registry'), { recursive: true })
  const child = spawn('bash', ['-ec', BUILDS[name]], {
    cwd: FOLDER,
    env: { ...process.env, GOBIN: PROGRAMS },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let output = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text))
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${name} cannot be built: ${BUILDS[name]}\n${output}`)
}
