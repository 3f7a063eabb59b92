import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DownloadRefusedError, SourceInvalidError } from '../../errors/errors.ts'
import { isScript } from '../../script/script.ts'
import { isHostNamespace } from '../host-imports.ts'
import { manifestWithModule } from '../oci/artifact-manifest.ts'
import type { Pulled, PullSettings } from '../oci/pull.ts'
import {
  isOciReference,
  type OciReference,
  parseReference,
  referenceHint,
  renderPinned,
  renderReference,
} from '../oci/reference.ts'
import type { Trust } from '../trust/trust.ts'
import { BUNDLE_SUFFIX, MAX_BUNDLE, type SigningRules, verifyDetached } from './detached-signature.ts'
import { sha256, sha256InSlices } from './digest.ts'
import { type CachedDownloadOptions, downloadCached } from './download-cache.ts'
import {
  decodeManifest,
  isManifest,
  type ManifestBase,
  type ManifestSettings,
  parseManifest,
} from './manifest.ts'
import type { ManifestModule } from './manifest-module.ts'
import { checkDigest, readSourceFile } from './module-bytes.ts'
import type { Companions, ModuleOrigin } from './origin.ts'
import {
  isUrl,
  type LinkOption,
  nameOfSource,
  parseSourceUrl,
  showSource,
  showUrl,
  sourceName,
  splitPin,
} from './url.ts'

/**
 * The source of a plug-in: a path or URL of a module or manifest, the bytes of a module, or a manifest. A path or URL may
 * end in `#sha256=<hex>`.
 */
export type PluginSource = string | URL | Uint8Array | object

export interface SourceOptions {
  /**
   * The name of the plug-in: in logs, metrics and errors, and of its keys in the store. Default: its path without `.wasm`,
   * its URL without query, or its artifact without tag; for bytes and manifests that are objects, `sha256:` and a digest.
   */
  readonly name?: string | undefined
  /** Modules to link in addition to the manifest's. */
  readonly links?: readonly LinkOption[] | undefined
  /** Value of the `Authorization` header. Sent only to the origin of the first URL. */
  readonly authorization?: string | undefined
  /** The cache folder. undefined: no cache. */
  readonly cacheFolder?: string | undefined
  /** Maximum size of one download. Default: 256 MiB. */
  readonly maxBytes?: number | undefined
  /** Time limit of one download. Default: 30 s. */
  readonly timeoutMs?: number | undefined
  /** Receives the path of each local file before it is read. */
  readonly onFile?: ((path: string) => void) | undefined
  /** Aborts the reading, which throws its reason. */
  readonly signal?: AbortSignal | undefined
  /** Whether requests are served meanwhile: then no file is read synchronously. Default: no. */
  readonly isServing?: boolean | undefined
  /** How artifacts of OCI registries are pulled. Default: without credentials and without a cache. */
  readonly pulling?: PullSettings | undefined
  /** Digests of manifests that tags have now, by reference: they replace the question to the registry. */
  readonly digests?: ReadonlyMap<string, string> | undefined
  /** Receives each reference with a tag, and the digest that is used for it. */
  readonly onTag?: ((reference: string, digest: string) => void) | undefined
  /** Who may sign. Opened when the first plug-in is read. undefined: signatures are not checked. */
  readonly trust?: (() => Promise<Trust>) | undefined
  /** The signature of a plug-in whose source is its bytes. */
  readonly bundle?: Uint8Array | undefined
}

/** The bytes of a plug-in and the settings of its manifest. */
export interface Source {
  /** See {@link SourceOptions.name}. */
  readonly name: string
  /** The file's name, or the start of the digest: for display. */
  readonly file: string
  /** `main`, and modules that are linked by their names. */
  readonly modules: readonly SourceModule[]
  /** undefined if there is no manifest. */
  readonly settings: ManifestSettings | undefined
  /** Warnings. */
  readonly warnings: readonly string[]
  /** What travels with an artifact of a registry, as text. */
  readonly companions?: Companions | undefined
}

export interface SourceModule {
  readonly name: string
  readonly bytes: Uint8Array
  /** SHA-256 of the bytes, in hex. */
  readonly digest: string
  /** The local file with the bytes; undefined if they come from elsewhere. */
  readonly path?: string | undefined
  /** Makes the bytes again of the script in the file; undefined if they are in the file. */
  readonly rebuild?: (() => Promise<Uint8Array>) | undefined
  /** undefined if it is neither from a registry nor signed. */
  readonly origin?: ModuleOrigin | undefined
}

/**
 * Reads a plug-in from its source. Of the modules, only the digests are verified.
 *
 * @throws {@link SourceInvalidError} if a URL, a pin or a link cannot be used.
 * @throws `PluginUnreadableError` if a file cannot be read.
 * @throws `ManifestInvalidError` if a manifest is not valid.
 * @throws {@link DigestMismatchError} if bytes do not match a pin or the manifest's `hash`.
 * @throws the errors of `download`.
 */
export async function readSource(source: PluginSource, options: SourceOptions = {}): Promise<Source> {
  const { signal } = options
  signal?.throwIfAborted()
  const reading = new SourceReading(options)
  const stop = () => reading.end()
  signal?.addEventListener('abort', stop)
  try {
    const { name: file, modules, ...plugin } = await reading.plugin(source)
    const links = await Promise.all((options.links ?? []).map((link) => reading.link(link)))
    const all = [...modules, ...links]
    refuseNames(all)
    signal?.throwIfAborted()
    const name = options.name ?? nameOf(source, modules, plugin.settings)
    return { ...plugin, name, file, modules: all, warnings: reading.warnings }
  } catch (error) {
    reading.end()
    signal?.throwIfAborted()
    throw error
  } finally {
    signal?.removeEventListener('abort', stop)
  }
}

/**
 * Reads a plug-in that is one module, by its bytes.
 *
 * @throws the errors of {@link verifyDetached}.
 */
export async function readModule(bytes: Uint8Array, options: SourceOptions): Promise<Source> {
  const { signal, bundle } = options
  const main = await toModule('main', bytes)
  const file = `sha256:${main.digest.slice(0, 12)}`
  const rules = rulesOf(options)
  const origin = rules && (await verifyDetached(rules, file, undefined, bytes, async () => bundle))
  signal?.throwIfAborted()
  const modules = [{ ...main, ...(origin && { origin }) }]
  const name = options.name ?? nameOf(bytes, modules, undefined)
  return { name, file, modules, settings: undefined, warnings: [] }
}

/** Bytes without a name are named by their content: the digest is whole, so that nobody can make others of this name. */
function nameOf(
  source: PluginSource,
  modules: readonly SourceModule[],
  settings: ManifestSettings | undefined,
): string {
  if (typeof source === 'string' || source instanceof URL) return nameOfSource(String(source))
  const [main] = modules
  if (source instanceof Uint8Array && main) return `sha256:${main.digest}`
  return `sha256:${sha256(JSON.stringify([modules.map(({ name, digest }) => [name, digest]), settings]))}`
}

/** Bytes and their origin. */
interface OpenedSource extends ManifestBase {
  readonly bytes: Uint8Array
  /** undefined if it was downloaded. */
  readonly path?: string
  readonly rebuild?: SourceModule['rebuild']
  readonly origin?: ModuleOrigin | undefined
  /** Whether a pin or a signature covers the bytes, and so the digests in them, if they are a manifest. */
  readonly isCovered: boolean
  /** undefined if it is not from a registry. */
  readonly artifact?: Pulled | undefined
}

/** A plug-in, by its name for display. */
type ReadPlugin = Omit<Source, 'file' | 'warnings'>

/** One run of `readSource`. */
class SourceReading {
  readonly warnings: string[] = []
  readonly #options: SourceOptions
  readonly #rules: SigningRules | undefined
  readonly #ended = new AbortController()
  #authorizedOrigin: string | undefined

  constructor(options: SourceOptions) {
    this.#options = options
    this.#rules = rulesOf(options)
  }

  /** Aborts the other downloads when one has failed. */
  end(): void {
    this.#ended.abort()
  }

  async plugin(source: PluginSource): Promise<ReadPlugin> {
    if (source instanceof Uint8Array) {
      const { file, modules, settings } = await readModule(source, this.#options)
      return { name: file, modules, settings }
    }
    if (typeof source !== 'string' && !(source instanceof URL))
      return this.#manifest(source, { name: 'manifest', base: resolve() }, false)

    const opened = await this.#open(String(source))
    if (opened.artifact) return this.#artifact(opened, opened.artifact)
    if (isManifest(opened)) return this.#manifest(decodeManifest(opened), opened, opened.isCovered)
    return { name: opened.name, modules: [await openedModule('main', opened)], settings: undefined }
  }

  async #artifact(opened: OpenedSource, { manifest, xtpSchema, smoke }: Pulled): Promise<ReadPlugin> {
    const companions = xtpSchema === undefined && smoke === undefined ? undefined : { xtpSchema, smoke }
    if (manifest !== undefined) {
      const whole = manifestWithModule(manifest, opened.bytes, opened.name)
      const source = await this.#manifest(whole, opened, opened.isCovered)
      const modules = source.modules.map((module) =>
        module.bytes === opened.bytes ? { ...module, origin: opened.origin } : module,
      )
      return { ...source, modules, companions }
    }
    const modules = [await openedModule('main', opened)]
    return { name: opened.name, modules, settings: undefined, companions }
  }

  async link({ name, source }: LinkOption): Promise<SourceModule> {
    const opened = await this.#open(source)
    if (isManifest(opened))
      throw new SourceInvalidError(opened.name, 'only a module can be linked, not a manifest')
    return openedModule(name, opened)
  }

  /** @param isCovered - Whether a pin or a signature covers the manifest. */
  async #manifest(manifest: string | object, place: ManifestBase, isCovered: boolean): Promise<ReadPlugin> {
    const { modules: wanted, ...settings } = parseManifest(manifest, place)
    const modules = await Promise.all(
      wanted.map((module) => this.#module(module, settings.isRemote, isCovered)),
    )
    return { name: place.name, modules, settings }
  }

  async #module(
    { name, digest, from }: ManifestModule,
    isRemote: boolean,
    isCovered: boolean,
  ): Promise<SourceModule> {
    if (from.kind === 'bytes') return toModule(name, await checkDigest(from.bytes, digest, name))
    const isPinned = isCovered && digest !== undefined
    if (from.kind === 'artifact') {
      const opened = await this.#pull(from.reference, digest)
      if (opened.artifact?.manifest !== undefined)
        throw new SourceInvalidError(
          renderReference(from.reference),
          'a manifest cannot name another manifest',
        )
      return openedModule(name, opened)
    }
    if (from.kind === 'request') {
      // With the operator's credentials, another method could change data that the manifest's author must not change.
      const isAuthorized = from.method === 'GET' || !isRemote
      const bytes = await this.#download(from.url, { ...from, digest }, isAuthorized)
      return openedModule(name, { bytes, ...(await this.#verifyUrl(from.url, bytes, isPinned)) })
    }
    const bytes = await checkDigest(await this.#read(from.path), digest, from.path)
    return openedModule(name, {
      ...(await this.#built(from.path, bytes, digest)),
      ...(await this.#verifyPath(from.path, bytes, isPinned)),
    })
  }

  /** @param source - A path, a URL or a reference to a registry. */
  async #open(source: string): Promise<OpenedSource> {
    const name = sourceName(source)
    if (isOciReference(source)) {
      const reference = parseReference(source)
      if ('problem' in reference) throw new SourceInvalidError(showSource(source), reference.problem)
      return this.#pull(reference, reference.pin)
    }
    if (isUrl(source) && !/^file:/i.test(source)) {
      const pinned = parseSourceUrl(source)
      if ('problem' in pinned)
        throw new SourceInvalidError(showSource(source), pinned.problem + referenceHint(source))
      const { place: base, digest } = pinned
      const bytes = await this.#download(base, pinned)
      return { name, base, bytes, ...(await this.#verifyUrl(base, bytes, digest !== undefined)) }
    }
    const pinned = splitPin(source)
    if ('problem' in pinned) throw new SourceInvalidError(source, pinned.problem)
    const path = isUrl(source) ? pathOfSource(pinned.place) : pinned.place
    const bytes = await checkDigest(await this.#read(path), pinned.digest, path)
    const verified = await this.#verifyPath(path, bytes, pinned.digest !== undefined)
    return {
      name,
      base: dirname(resolve(path)),
      ...(await this.#built(path, bytes, pinned.digest)),
      ...verified,
    }
  }

  async verifyAgain(bytes: Uint8Array, digest: string, origin: ModuleOrigin | undefined): Promise<void> {
    const { place, bundle } = origin ?? {}
    const reference = place === undefined ? undefined : parseReference(place)
    const name = place ?? `sha256:${digest.slice(0, 12)}`
    if (reference && !('problem' in reference)) await this.#pull(reference, digest)
    else await this.#cover(name, place, bytes, false, async () => bundle)
  }

  /** @param pin - SHA-256 of the module, in hex. */
  async #pull(reference: OciReference, pin: string | undefined): Promise<OpenedSource> {
    const { pulling, cacheFolder, maxBytes, timeoutMs, trust, digests, onTag } = this.#options
    const text = renderReference(reference)
    const { pullPlugin } = await import('../oci/pull.ts') // loaded on demand
    const pulled = await pullPlugin(reference, {
      ...pulling,
      ...{ cacheFolder, maxBytes, timeoutMs, signal: this.#ended.signal },
      trust: await trust?.(),
      digest: digests?.get(text),
    })
    const { bytes, digest, signed, warnings } = pulled
    this.warnings.push(...warnings)
    if (reference.digest === undefined) onTag?.(text, digest)
    return {
      name: sourceName(text),
      base: new URL(`https://${reference.registry}/`),
      bytes: await checkDigest(bytes, pin, text),
      origin: { place: renderPinned(reference, digest), signed },
      isCovered: signed !== undefined,
      artifact: pulled,
    }
  }

  async #verifyUrl(url: URL, bytes: Uint8Array, isPinned: boolean): Promise<Covered> {
    return this.#cover(showUrl(url), showUrl(url), bytes, isPinned, async () => {
      const beside = new URL(url)
      beside.pathname += BUNDLE_SUFFIX
      try {
        return await this.#download(beside, {}, true, MAX_BUNDLE)
      } catch (error) {
        if (error instanceof DownloadRefusedError) return undefined
        throw error
      }
    })
  }

  async #verifyPath(path: string, bytes: Uint8Array, isPinned: boolean): Promise<Covered> {
    return this.#cover(path, undefined, bytes, isPinned, async () => {
      const beside = path + BUNDLE_SUFFIX
      this.#options.onFile?.(beside)
      return existsSync(beside) ? this.#read(beside) : undefined
    })
  }

  async #cover(
    name: string,
    place: string | undefined,
    bytes: Uint8Array,
    isPinned: boolean,
    readBundle: () => Promise<Uint8Array | undefined>,
  ): Promise<Covered> {
    if (isPinned || !this.#rules) return { isCovered: isPinned }
    const origin = await verifyDetached(this.#rules, name, place, bytes, readBundle)
    return { isCovered: origin !== undefined, origin }
  }

  /** A module, or the plug-in that is made of a script. */
  async #built(
    path: string,
    bytes: Uint8Array,
    pin: string | undefined,
  ): Promise<Pick<OpenedSource, 'bytes' | 'path' | 'rebuild'>> {
    if (!isScript(path)) return { bytes, path }
    const { pluginOfFile } = await import('./script-source.ts') // loaded on demand
    const { onFile } = this.#options
    const isAlone = pin !== undefined || this.#rules !== undefined
    const built = await pluginOfFile(path, bytes, { signal: this.#ended.signal, onFile, isAlone })
    const rebuild = async () => pluginOfFile(path, await readSourceFile(path, true), { isAlone })
    return { bytes: built, path, rebuild }
  }

  #read(path: string): Promise<Uint8Array> {
    const { onFile, isServing } = this.#options
    onFile?.(path)
    return readSourceFile(path, isServing)
  }

  async #download(
    url: URL,
    { digest, headers, method }: Pick<CachedDownloadOptions, 'digest' | 'headers' | 'method'>,
    isAuthorized = true,
    maxBytes = this.#options.maxBytes,
  ): Promise<Uint8Array> {
    const { authorization, cacheFolder, timeoutMs } = this.#options
    this.#authorizedOrigin ??= url.origin
    const { bytes, warnings } = await downloadCached(url, {
      digest,
      headers,
      method,
      cacheFolder,
      maxBytes,
      timeoutMs,
      signal: this.#ended.signal,
      authorization: isAuthorized && url.origin === this.#authorizedOrigin ? authorization : undefined,
    })
    this.warnings.push(...warnings)
    return bytes
  }
}

/** @returns undefined if no plug-in needs a signature. */
function rulesOf({ trust, pulling }: SourceOptions): SigningRules | undefined {
  const { requireSignatures = false } = pulling ?? {}
  return trust || requireSignatures ? { trust, requireSignatures } : undefined
}

type Covered = Pick<OpenedSource, 'origin' | 'isCovered'>

async function openedModule(
  name: string,
  { bytes, path, origin, rebuild }: Pick<OpenedSource, 'bytes' | 'path' | 'origin' | 'rebuild'>,
): Promise<SourceModule> {
  return { ...(await toModule(name, bytes, path)), ...(origin && { origin }), ...(rebuild && { rebuild }) }
}

async function toModule(name: string, bytes: Uint8Array, path?: string): Promise<SourceModule> {
  return { name, bytes, digest: await sha256InSlices(bytes), path: path && resolve(path) }
}

/**
 * Verifies again the signature of a module that is stored elsewhere, such as in a state folder: the policies may have changed,
 * and others may have had access.
 *
 * @param module - With the place and the detached signature that it had when it was stored.
 * @throws as {@link readSource}.
 */
export async function verifyStored(
  { digest, origin, ...module }: Pick<SourceModule, 'bytes' | 'digest' | 'origin'>,
  options: SourceOptions,
): Promise<void> {
  if (rulesOf(options)) await new SourceReading(options).verifyAgain(module.bytes, digest, origin)
}

function refuseNames(modules: readonly SourceModule[]): void {
  const names = modules.map(({ name }) => name)
  const reserved = names.find((name) => isHostNamespace(name))
  if (reserved !== undefined) throw new SourceInvalidError(reserved, 'this name is reserved for the host')
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined)
    throw new SourceInvalidError(twice, 'two modules have this name; give a link another one with NAME=PATH')
}

function pathOfSource(url: string): string {
  try {
    return fileURLToPath(url)
  } catch (error) {
    throw new SourceInvalidError(url, (error as Error).message, { cause: error })
  }
}
