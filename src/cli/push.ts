import { readFile } from 'node:fs/promises'
import { basename, dirname, extname, resolve } from 'node:path'
import {
  InputUnreadableError,
  ManifestInvalidError,
  PluginInvalidError,
  SourceInvalidError,
  UsageError,
} from '../errors/errors.ts'
import { problemWithFile } from '../module/module.ts'
import type { Environment } from '../options/config.ts'
import { fileProblem } from '../platform/system-errors.ts'
import { printable } from '../platform/text.ts'
import { COMPANIONS } from '../plugin/oci/artifact.ts'
import { ARTIFACT_MODULE_PATH, manifestWithModule } from '../plugin/oci/artifact-manifest.ts'
import { pushPlugin } from '../plugin/oci/push.ts'
import {
  OCI_SCHEME,
  parseReference,
  referenceHint,
  renderPinned,
  renderReference,
} from '../plugin/oci/reference.ts'
import { openRegistry } from '../plugin/oci/registry.ts'
import { parseManifest } from '../plugin/source/manifest.ts'
import { readSource } from '../plugin/source/source.ts'
import { showSource } from '../plugin/source/url.ts'
import { readXtpText } from '../route/openapi/xtp-schema.ts'
import { isScript } from '../script/script.ts'
import { type Command, type OwnValues, renderPage, takeOwnFlags } from './command.ts'
import { showTransfers } from './progress.ts'

/** Flags of this command only. */
export const PUSH_FLAGS = {
  smoke: {
    kind: 'text',
    placeholder: 'path',
    description: 'JSON file with smoke requests by function, stored with the plug-in.',
  },
  source: {
    kind: 'text',
    placeholder: 'url',
    description: 'URL of its source code. Default: that of the CI job.',
  },
  revision: {
    kind: 'text',
    placeholder: 'id',
    description: 'Revision of its source code. Default: that of the CI job.',
  },
  insecure: { kind: 'switch', description: 'Use http for a registry that is not on this machine.' },
  ca: { kind: 'text', placeholder: 'path', description: 'Certificate authority (PEM) of the registry.' },
  json: { kind: 'switch', description: 'Print JSON.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve push <plugin.wasm|manifest.json> oci://REGISTRY/NAME[:TAG] [flags]',
  about:
    'Pushes a plug-in to an OCI registry, in the CNCF layout. Prints its\nreference with the digest and, in a terminal, the command that signs it. The XTP\nschema beside it and the Extism manifest are stored as annotations.',
  examples: [
    'wasm-serve push hello.wasm oci://ghcr.io/acme/hello:1.2',
    'wasm-serve push manifest.json oci://ghcr.io/acme/hello:1.2',
    'wasm-serve push hello.wasm oci://localhost:5000/hello --json',
  ],
  flags: PUSH_FLAGS,
  more: 'Credentials come from the Docker configuration (docker login, oras login).\nSOURCE_DATE_EPOCH sets the time, so that equal plug-ins have equal digests.',
})

type PushValues = OwnValues<typeof PUSH_FLAGS>

/** Time limit of an upload, in ms. */
const UPLOAD_MS = 600_000

/** Pushes a plug-in to a registry. */
export const pushCommand: Command = {
  async run(argv, host) {
    const { values, rest } = takeOwnFlags(argv, PUSH_FLAGS)
    if (values.help) return host.out.write(HELP)
    const flag = rest.find((word) => word.startsWith('-'))
    if (flag !== undefined) throw new UsageError(`${flag}: not supported by push, which does not serve`)
    const [path, target, tooMany] = rest
    if (path === undefined || target === undefined)
      throw new UsageError(
        'push: name a plug-in and where it goes, such as hello.wasm oci://ghcr.io/acme/hello:1.2',
      )
    if (tooMany !== undefined) throw new UsageError(`push: unexpected "${tooMany}"`)
    const reference = parseReference(target)
    if ('problem' in reference)
      throw new SourceInvalidError(showSource(target), reference.problem + referenceHint(target))
    if (reference.digest !== undefined || reference.pin !== undefined)
      throw new SourceInvalidError(target, 'push computes the digest: name a tag only')

    const { environment } = host
    const plugin = await readPushed(path, values)
    const { registry: name } = reference
    const show = showTransfers(host, 'pushed')
    const registry = openRegistry({
      environment,
      registries: { [name]: { ...(values.insecure && { insecure: true }), ca: values.ca } },
      timeoutMs: UPLOAD_MS,
      onProgress: (done, total, digest) => show({ name: renderReference(reference), digest, done, total }),
    })
    const { tag } = reference
    const created = timeOf(environment)
    const origin = provenance({ ...values, created, tag }, environment)
    const annotations = { ...origin, ...plugin.annotations }
    const pushed = await pushPlugin(registry, reference, { ...plugin, created, annotations })
    const pinned = renderPinned(reference, pushed.digest)
    const image = pinned.slice(OCI_SCHEME.length)
    const result = { reference: pinned, image, tag, digest: pushed.digest, bytes: pushed.bytes }
    host.out.write(`${values.json ? JSON.stringify(result) : printable(pinned)}\n`)
    // A script that takes the output wants the reference.
    if (host.isOutTerminal && !values.json)
      host.out.write(`Sign it: cosign sign --key cosign.key ${printable(image)}\n`)
  },
}

interface PushedFile {
  readonly bytes: Uint8Array
  readonly title: string
  readonly annotations: Record<string, string>
}

async function readPushed(path: string, { smoke }: PushValues): Promise<PushedFile> {
  const requests = smoke === undefined ? {} : { [COMPANIONS.smoke.annotation]: await readSmoke(smoke) }
  const { modules, settings } = await readSource(path)
  if (settings) return withManifest(path, modules, requests)
  const [main] = modules
  const bytes = coreModule(path, main?.bytes)
  return {
    bytes,
    title: isScript(path) ? `${basename(path, extname(path))}.wasm` : basename(path),
    annotations: { ...(await schemaOf(path)), ...requests },
  }
}

/** The one module of the manifest that is a file is the artifact's. */
async function withManifest(
  path: string,
  modules: readonly { readonly bytes: Uint8Array; readonly path?: string | undefined }[],
  requests: Readonly<Record<string, string>>,
): Promise<PushedFile> {
  const manifest: { readonly wasm: readonly { readonly path?: string }[] } = JSON.parse(await readText(path))
  const [own, other] = manifest.wasm.filter((entry) => entry.path !== undefined)
  if (own?.path === undefined || other)
    throw new ManifestInvalidError(
      path,
      '  wasm: an artifact has exactly one module from a file; name others by "url"',
    )
  const file = resolve(dirname(path), own.path)
  const bytes = coreModule(file, modules.find((module) => module.path === file)?.bytes)
  const wasm = manifest.wasm.map((entry) =>
    entry === own ? { ...entry, path: ARTIFACT_MODULE_PATH } : entry,
  )
  const text = JSON.stringify({ ...manifest, wasm })
  // As it will be read: a manifest from a registry can open no folders.
  parseManifest(manifestWithModule(text, bytes, path), {
    name: path,
    base: new URL('https://registry.invalid/'),
  })
  return {
    bytes,
    title: basename(file),
    annotations: { [COMPANIONS.manifest.annotation]: text, ...(await schemaOf(file)), ...requests },
  }
}

function coreModule(path: string, bytes: Uint8Array = new Uint8Array()): Uint8Array {
  const problem = problemWithFile(bytes)
  if (problem !== undefined) throw new PluginInvalidError(path, problem)
  return bytes
}

async function schemaOf(path: string): Promise<Record<string, string>> {
  const schema = await readXtpText(path)
  return schema === undefined ? {} : { [COMPANIONS.xtpSchema.annotation]: schema }
}

async function readSmoke(path: string): Promise<string> {
  const text = await readText(path)
  try {
    const requests: unknown = JSON.parse(text)
    if (typeof requests === 'object' && requests !== null && !Array.isArray(requests))
      return JSON.stringify(requests)
  } catch (error) {
    throw new InputUnreadableError(path, (error as Error).message, { cause: error })
  }
  throw new InputUnreadableError(path, 'it is not a JSON object of requests by function')
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new InputUnreadableError(path, fileProblem(error), { cause: error })
  }
}

/** @see {@link https://reproducible-builds.org/specs/source-date-epoch/} */
function timeOf({ SOURCE_DATE_EPOCH: seconds = '' }: Environment): string {
  if (seconds === '') return new Date().toISOString()
  const time = new Date(Number(seconds) * 1_000)
  if (!/^\d{1,11}$/.test(seconds) || Number.isNaN(time.getTime()))
    throw new UsageError(`SOURCE_DATE_EPOCH: must be a number of seconds since 1970, not "${seconds}"`)
  return time.toISOString()
}

interface Provenance extends Pick<PushValues, 'source' | 'revision'> {
  readonly created: string
  readonly tag: string | undefined
}

/** The annotations of OCI for the origin of an artifact; those of GitHub's and GitLab's CI jobs are known. */
function provenance(
  { source, revision, created, tag }: Provenance,
  environment: Environment,
): Record<string, string> {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = environment
  const github = server && repository ? `${server}/${repository}` : undefined
  const found = {
    created,
    version: tag,
    source: source ?? github ?? environment.CI_PROJECT_URL,
    revision: revision ?? environment.GITHUB_SHA ?? environment.CI_COMMIT_SHA,
  }
  return Object.fromEntries(
    Object.entries(found).flatMap(([name, value]) =>
      value ? [[`org.opencontainers.image.${name}`, value] as const] : [],
    ),
  )
}
