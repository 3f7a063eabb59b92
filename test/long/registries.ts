import { spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { CLI } from '../support/cli.ts'
import { buildProgram, PROGRAMS } from '../support/registry-programs.ts'
import {
  openRegistryServer,
  type RegistryServer,
  type RegistryServerName,
} from '../support/registry-server.ts'
import { tarOf } from '../support/tar.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/registries.ts
 *
 * Plug-ins that other programs push and sign are pulled and verified. The programs are built from the Go proxy, crates.io
 * and PyPI, once, into a folder of the cache; docker-registry and skopeo come from Debian. Writes the results to
 * docs/contribute/long-tests.md, and exits with 1 if one is not as expected.
 */

const BUILT = [
  'crane',
  'distribution',
  'referrers-registry',
  'oras-python',
  'wkg',
  'cosign3',
  'cosign2',
] as const
const HELLO = fileURLToPath(new URL('../../plugins/hello/hello.wasm', import.meta.url))
const ANSWER = '{"message":"🦀 Hello Bob"}'
const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-registries-'))
const servers: RegistryServer[] = []

/** The environment of all programs: no credentials, no key with a password, no network beyond this machine. */
const environment = {
  ...process.env,
  PATH: `${PROGRAMS}:${process.env.PATH}`,
  DOCKER_CONFIG: folder,
  COSIGN_PASSWORD: '',
  XDG_CACHE_HOME: join(folder, 'cache'),
}

function shell(
  command: string,
  cwd = folder,
): { readonly ok: boolean; readonly output: string; readonly error: string } {
  const { status, stdout, stderr } = spawnSync('bash', ['-c', command], {
    cwd,
    env: environment,
    encoding: 'utf8',
  })
  return { ok: status === 0, output: stdout.trim(), error: stderr.trim() }
}

function must(command: string, cwd = folder): string {
  const { ok, output, error } = shell(command, cwd)
  if (!ok) throw new Error(`${command}\n${error}`)
  return output
}

async function startRegistries(): Promise<Map<string, string>> {
  const open = async (name: RegistryServerName) => {
    const server = await openRegistryServer(name)
    servers.push(server)
    return server.host
  }
  return new Map([
    ['docker-registry 2.8 (Debian)', await open('docker-registry')],
    ['distribution 3.1.2', await open('distribution')],
    ['go-containerregistry 0.22.1 with referrers', await open('referrers-registry')],
  ])
}

/** What pushes hello.wasm to `REGISTRY/NAME:1`. @returns a shell command. */
const PUSHERS: Readonly<Record<string, (reference: string) => string>> = {
  'wasm-serve push': (to) => `node ${CLI} push hello.wasm oci://${to}`,
  'oras 0.2.43 (PyPI)': (to) =>
    `oras-python -c 'import oras.client; oras.client.OrasClient(insecure=True).push(target="${to}", files=["hello.wasm:application/wasm"], disable_path_validation=True)'`,
  'crane append 0.22.1 (an image)': (to) => `crane append --insecure -f layer.tar.gz -t ${to}`,
  'skopeo copy': (to) => {
    const from = to.replace('/skopeo', '/source')
    return `node ${CLI} push hello.wasm oci://${from} && skopeo --insecure-policy copy --src-tls-verify=false --dest-tls-verify=false docker://${from} docker://${to}`
  },
  'wkg oci push 0.16.1': (to) => `wkg oci push --insecure ${to.split('/')[0]} ${to} hello.wasm`,
}

/** What cannot push to which registry, and why. */
const UNFIT: readonly (readonly [pusher: string, registry: RegExp, reason: string])[] = [
  ['wkg oci push 0.16.1', /go-containerregistry/, 'Registry did not return a location header'],
]

/** Programs that sign, with flags for no log. Every command of theirs needs a key. */
const SIGNERS: Readonly<Record<string, string>> = {
  'cosign 3.1.3': 'cosign3 COMMAND --yes --tlog-upload=false --use-signing-config=false',
  'cosign 2.6.5': 'cosign2 COMMAND --yes --tlog-upload=false',
}
const HTTP = '--allow-insecure-registry --allow-http-registry'

const SBOM_TYPE = 'https://spdx.dev/Document'

/** Keys that cosign imports. Those of Ed25519 sign files; artifacts are signed with them in a way that Node.js cannot verify. */
function makeKeys(): string[] {
  const pairs = {
    ed25519: generateKeyPairSync('ed25519'),
    p256: generateKeyPairSync('ec', { namedCurve: 'prime256v1' }),
    p384: generateKeyPairSync('ec', { namedCurve: 'secp384r1' }),
    rsa: generateKeyPairSync('rsa', { modulusLength: 2_048 }),
  }
  for (const [name, { privateKey }] of Object.entries(pairs)) {
    writeFileSync(join(folder, `${name}.pem`), privateKey.export({ type: 'pkcs8', format: 'pem' }))
    must(`cosign3 import-key-pair --key ${name}.pem --output-key-prefix ${name}`)
  }
  must('cosign3 generate-key-pair --output-key-prefix other')
  return Object.keys(pairs)
}

function call(reference: string, flags = ''): string {
  const cache = mkdtempSync(join(folder, 'pulled-'))
  const { output, error } = shell(
    `node ${CLI} call oci://${reference} -i Bob --cache-folder ${cache} ${flags}`,
  )
  return output || (/WASM_SERVE_\w+/.exec(error)?.[0] ?? error)
}

/** Whether a configuration with a policy that requires an SBOM starts. @returns `ok`, or the code of the error. */
function checkWithSbom(reference: string, prefix: string, key: string): string {
  const path = join(mkdtempSync(join(folder, 'checked-')), 'wasm-serve.json')
  const policy = { keys: [join(folder, `${key}.pub`)], attestations: [SBOM_TYPE] }
  const plugins = { hello: { source: `oci://${reference}` } }
  writeFileSync(path, JSON.stringify({ trust: { [prefix]: policy }, plugins }))
  const { ok, error } = shell(`node ${CLI} check -c ${path} --cache-folder ${path}.cache`)
  return ok ? 'ok' : (/WASM_SERVE_\w+/.exec(error)?.[0] ?? error)
}

interface Row {
  readonly what: string
  readonly registry: string
  readonly got: string
  readonly wanted: string
}

/** Adds a row. */
type Add = (what: string, registry: string, got: string, wanted: string) => void

async function runMatrix(): Promise<Row[]> {
  const registries = await startRegistries()
  const keys = makeKeys()
  const rows: Row[] = []
  const add: Add = (what, registry, got, wanted) => {
    rows.push({ what, registry, got, wanted })
    console.log(`${got === wanted ? 'ok' : 'WRONG'}: ${what}, ${registry}: ${got}`)
  }
  for (const [registry, host] of registries) {
    pushWithEach(registry, host, add)
    for (const [signer, command] of Object.entries(SIGNERS)) {
      for (const key of keys.filter((key) => key !== 'ed25519'))
        signArtifact(registry, host, signer, command, key, add)
      attest(registry, host, signer, command, add)
    }
  }
  for (const [signer, command] of Object.entries(SIGNERS))
    for (const key of keys) {
      if (signer === 'cosign 2.6.5' && key === 'ed25519') continue // it panics
      signFile(signer, command, key, add)
    }
  return rows
}

function pushWithEach(registry: string, host: string, add: Add): void {
  for (const [pusher, command] of Object.entries(PUSHERS)) {
    const reference = `${host}/${pusher.split(' ')[0]?.toLowerCase()}:1`
    const pushed = shell(command(reference))
    const unfit = UNFIT.find(([name, pattern]) => name === pusher && pattern.test(registry))
    if (unfit) {
      const [, , reason] = unfit
      const isAsExpected = String(pushed.error.includes(reason))
      add(`pushed by ${pusher}: not possible (${reason})`, registry, isAsExpected, 'true')
      continue
    }
    add(`pushed by ${pusher}`, registry, pushed.ok ? call(reference) : pushed.error.slice(0, 200), ANSWER)
  }
}

/** @returns the reference with its digest. */
function pushHello(name: string): string {
  const { digest } = JSON.parse(must(`node ${CLI} push hello.wasm oci://${name}:1 --json`))
  return `${name}@${digest}`
}

function signArtifact(
  registry: string,
  host: string,
  signer: string,
  command: string,
  key: string,
  add: Add,
): void {
  const name = `${host}/${signer.replace(/\W/g, '')}-${key}`
  const pinned = pushHello(name)
  const callWith = (trusted: string, reference = pinned) => call(reference, `--trust ${host}/=${trusted}.pub`)
  add(`not signed, ${key}`, registry, callWith(key), 'WASM_SERVE_SIGNATURE_MISSING')
  must(`${command.replace('COMMAND', 'sign')} ${HTTP} --key ${key}.key ${pinned}`)
  add(`signed by ${signer}, ${key}`, registry, callWith(key), ANSWER)
  add(`signed by ${signer}, another key trusted`, registry, callWith('other'), 'WASM_SERVE_SIGNATURE_INVALID')
  must(`crane copy --insecure ${pinned} ${name}-copy:1`)
  const copy = pinned.replace('@', '-copy@')
  add(`signed by ${signer}, copied alone`, registry, callWith(key, copy), 'WASM_SERVE_SIGNATURE_MISSING')
}

function attest(registry: string, host: string, signer: string, command: string, add: Add): void {
  const name = `${host}/${signer.replace(/\W/g, '')}-sbom`
  const pinned = pushHello(name)
  const cosign = (word: string, flags: string) =>
    must(`${command.replace('COMMAND', word)} ${HTTP} --key p256.key ${flags} ${pinned}`)
  const check = () => checkWithSbom(pinned, `${host}/`, 'p256')
  cosign('sign', '')
  add(`signed by ${signer}, an SBOM required`, registry, check(), 'WASM_SERVE_ATTESTATION_MISSING')
  cosign('attest', '--type spdxjson --predicate sbom.json')
  add(`attested by ${signer}, the SBOM required`, registry, check(), 'ok')
  const unsigned = pushHello(`${name}-only`)
  must(
    `${command.replace('COMMAND', 'attest')} ${HTTP} --key p256.key --type spdxjson --predicate sbom.json ${unsigned}`,
  )
  const got = checkWithSbom(unsigned, `${host}/`, 'p256')
  add(`attested by ${signer}, not signed`, registry, got, 'WASM_SERVE_SIGNATURE_MISSING')
}

function signFile(signer: string, command: string, key: string, add: Add): void {
  const own = mkdtempSync(join(folder, 'file-'))
  const file = join(own, 'hello.wasm')
  copyFileSync(HELLO, file)
  const callWith = (trusted: string) => {
    const flags = `--require-signatures --trust '*=${trusted}.pub'`
    const { output, error } = shell(`node ${CLI} call ${file} -i Bob ${flags}`)
    return output || (/WASM_SERVE_\w+/.exec(error)?.[0] ?? error)
  }
  add(`a file, not signed, ${key}`, 'none', callWith(key), 'WASM_SERVE_SIGNATURE_MISSING')
  const format = command.startsWith('cosign2') ? '--new-bundle-format' : ''
  must(
    `${command.replace('COMMAND', 'sign-blob')} ${format} --key ${key}.key --bundle ${file}.sigstore.json ${file}`,
  )
  add(`a file, signed by ${signer}, ${key}`, 'none', callWith(key), ANSWER)
  add(
    `a file, signed by ${signer}, another key trusted`,
    'none',
    callWith('other'),
    'WASM_SERVE_SIGNATURE_INVALID',
  )
  writeFileSync(file, readFileSync(join(folder, 'other.wasm')))
  add(`a file, signed by ${signer}, then changed`, 'none', callWith(key), 'WASM_SERVE_SIGNATURE_INVALID')
}

function render(rows: readonly Row[]): string {
  const right = rows.filter(({ got, wanted }) => got === wanted).length
  const lines = rows.map(
    ({ what, registry, got, wanted }) =>
      `| ${what} | ${registry} | ${got === wanted ? 'as expected' : `**${got}**`} |`,
  )
  return [
    '## Registries and signers',
    '',
    'Other programs push and sign hello.wasm. It is pulled, verified, and called (`npx tsx test/long/registries.ts`).',
    '',
    `${renderOrigin()}. ${right} of ${rows.length} as expected.`,
    '',
    '| what | registry | result |',
    '| --- | --- | --- |',
    ...new Set(lines),
  ].join('\n')
}

for (const name of BUILT) await buildProgram(name)
try {
  copyFileSync(HELLO, join(folder, 'hello.wasm'))
  writeFileSync(join(folder, 'other.wasm'), Buffer.concat([readFileSync(HELLO), Buffer.of(0, 1, 0)])) // an empty custom section
  writeFileSync(join(folder, 'sbom.json'), '{"spdxVersion":"SPDX-2.3"}')
  writeFileSync(
    join(folder, 'layer.tar.gz'),
    gzipSync(tarOf({ name: 'plugin.wasm', content: readFileSync(HELLO) })),
  )
  const rows = await runMatrix()
  keepSection('registries', render(rows))
  if (rows.some(({ got, wanted }) => got !== wanted)) process.exitCode = 1
} finally {
  for (const server of servers) await server.stop()
  rmSync(folder, { recursive: true, force: true })
}
