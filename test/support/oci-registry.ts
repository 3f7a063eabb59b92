import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { buffer, text as readText } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import type { Certificate } from './certificate.ts'

/** A request that the registry received. */
interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
}

/** The required authorization. The token server is the registry itself, at `/token`. */
type RegistryAuth =
  | { readonly scheme: 'basic'; readonly username: string; readonly password: string }
  | {
      readonly scheme: 'bearer'
      /** Default: anonymous clients get a token. */
      readonly username?: string
      readonly password?: string
      /** An identity token that is accepted instead of the password. */
      readonly identityToken?: string
      /** Default: no `expires_in`. */
      readonly expiresInSeconds?: number
      /** Another token server. */
      readonly realm?: string
    }

export interface OciRegistryOptions {
  /** Default: none is required. */
  readonly auth?: RegistryAuth
  /** The referrers API (specification 1.1). Default: true. Without it, `putReferrer` uses the tag schema. */
  readonly referrers?: boolean
  /** Referrers on one page. Default: all. */
  readonly pageSize?: number
  /** Serves https. */
  readonly certificate?: Certificate
  /** Called for each request before anything else. @returns true if it answers the request itself. */
  readonly intercept?: (request: IncomingMessage, response: ServerResponse) => boolean
}

/** A descriptor of what a test stored. */
export interface StoredDescriptor {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
}

/** A part of a manifest. */
interface Content {
  readonly mediaType: string
  readonly bytes: Uint8Array | string
  readonly annotations?: Readonly<Record<string, string>>
}

interface ArtifactContent {
  /** Default: the empty config of OCI. */
  readonly config?: Content
  readonly layers: readonly Content[]
  readonly artifactType?: string
  readonly annotations?: Readonly<Record<string, string>>
}

/** An OCI registry in memory, on a socket of the loopback interface. */
export interface OciRegistry {
  /** `127.0.0.1:PORT`. */
  readonly host: string
  readonly requests: readonly SeenRequest[]
  /** Forgets the requests so far. */
  forgetRequests(): void
  /** Makes all issued tokens invalid. */
  revokeTokens(): void
  putBlob(bytes: Uint8Array | string, mediaType?: string): StoredDescriptor
  /** Stores a manifest or index as it is. */
  putManifest(
    repository: string,
    manifest: object | string,
    mediaType?: string,
    tag?: string,
  ): StoredDescriptor
  /** Stores the parts and a manifest of them. */
  putArtifact(repository: string, content: ArtifactContent, tag?: string): StoredDescriptor
  /** Stores an index of manifests, with annotations or platforms. */
  putIndex(repository: string, manifests: readonly object[], tag?: string): StoredDescriptor
  /** Stores an artifact with a subject, so that it is listed as a referrer of it. */
  putReferrer(repository: string, subject: StoredDescriptor, content: ArtifactContent): StoredDescriptor
  tag(repository: string, tag: string, digest: string): void
  /** The digest of a tag. */
  digestOf(repository: string, tag: string): string | undefined
  manifest(repository: string, digest: string): Uint8Array | undefined
  blob(digest: string): Uint8Array | undefined
  close(): Promise<void>
}

/** Opens a registry, which is closed when the test ends. */
export async function openOciRegistry(options: OciRegistryOptions = {}): Promise<OciRegistry> {
  const registry = new MemoryRegistry(options)
  await registry.listen()
  onTestFinished(() => registry.close())
  return registry
}

/** `sha256:<hex>`. */
export function digestOf(bytes: Uint8Array | string): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

const OCI_MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
const OCI_INDEX = 'application/vnd.oci.image.index.v1+json'
const EMPTY_CONFIG: Content = { mediaType: 'application/vnd.oci.empty.v1+json', bytes: '{}' }

interface StoredManifest {
  readonly bytes: Buffer
  readonly mediaType: string
}

class MemoryRegistry implements OciRegistry {
  readonly requests: SeenRequest[] = []
  readonly #options: OciRegistryOptions
  readonly #server
  /** The scopes of issued tokens. */
  readonly #tokens = new Map<string, string>()
  readonly #blobs = new Map<string, Buffer>()
  /** By `repository@digest`. */
  readonly #manifests = new Map<string, StoredManifest>()
  /** Digests by `repository:tag`. */
  readonly #tags = new Map<string, string>()

  constructor(options: OciRegistryOptions) {
    this.#options = options
    const listener: RequestListener = (request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        response.destroy(error instanceof Error ? error : undefined)
      })
    }
    this.#server = options.certificate
      ? createSecureServer(options.certificate, listener)
      : createServer(listener)
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }

  forgetRequests(): void {
    this.requests.length = 0
  }

  revokeTokens(): void {
    this.#tokens.clear()
  }

  putBlob(bytes: Uint8Array | string, mediaType = 'application/octet-stream'): StoredDescriptor {
    const content = Buffer.from(bytes)
    const digest = digestOf(content)
    this.#blobs.set(digest, content)
    return { mediaType, digest, size: content.length }
  }

  putManifest(
    repository: string,
    manifest: object | string,
    mediaType = OCI_MANIFEST,
    tag?: string,
  ): StoredDescriptor {
    const bytes = Buffer.from(typeof manifest === 'string' ? manifest : JSON.stringify(manifest))
    const digest = digestOf(bytes)
    this.#manifests.set(`${repository}@${digest}`, { bytes, mediaType })
    if (tag !== undefined) this.tag(repository, tag, digest)
    return { mediaType, digest, size: bytes.length }
  }

  putArtifact(repository: string, content: ArtifactContent, tag?: string): StoredDescriptor {
    return this.putManifest(repository, this.#manifestOf(content), OCI_MANIFEST, tag)
  }

  putIndex(repository: string, manifests: readonly object[], tag?: string): StoredDescriptor {
    return this.putManifest(repository, { schemaVersion: 2, mediaType: OCI_INDEX, manifests }, OCI_INDEX, tag)
  }

  putReferrer(repository: string, subject: StoredDescriptor, content: ArtifactContent): StoredDescriptor {
    const manifest = { ...this.#manifestOf(content), subject }
    const stored = this.putManifest(repository, manifest)
    if (this.#options.referrers !== false) return stored
    const tag = subject.digest.replace(':', '-')
    this.putIndex(repository, this.#referrersOf(repository, subject.digest), tag)
    return stored
  }

  tag(repository: string, tag: string, digest: string): void {
    this.#tags.set(`${repository}:${tag}`, digest)
  }

  digestOf(repository: string, tag: string): string | undefined {
    return this.#tags.get(`${repository}:${tag}`)
  }

  manifest(repository: string, digest: string): Uint8Array | undefined {
    return this.#manifests.get(`${repository}@${digest}`)?.bytes
  }

  blob(digest: string): Uint8Array | undefined {
    return this.#blobs.get(digest)
  }

  #manifestOf({ config = EMPTY_CONFIG, layers, ...rest }: ArtifactContent): object {
    const put = ({ bytes, mediaType, annotations }: Content) => ({
      ...this.putBlob(bytes, mediaType),
      ...(annotations && { annotations }),
    })
    return {
      schemaVersion: 2,
      mediaType: OCI_MANIFEST,
      ...rest,
      config: put(config),
      layers: layers.map(put),
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request
    this.requests.push({ method, url, headers })
    if (this.#options.intercept?.(request, response)) return
    const { pathname, searchParams } = new URL(url, 'http://registry')
    if (pathname === '/token') return this.#issueToken(request, response, searchParams)
    const [, repository = '', kind, reference = ''] =
      /^\/v2\/(.+)\/(manifests|blobs|referrers)\/(.+)$/.exec(pathname) ?? []
    if (!this.#isAuthorized(headers.authorization, repository, method)) {
      response.setHeader('www-authenticate', this.#challenge(repository, method))
      return refuse(response, 401, 'UNAUTHORIZED', 'authentication required')
    }
    if (kind === 'manifests' && method === 'PUT')
      return this.#storeManifest(request, response, repository, reference)
    if (kind === 'manifests') return this.#sendManifest(response, repository, reference)
    if (kind === 'referrers' && this.#options.referrers !== false)
      return this.#sendReferrers(response, repository, reference, Number(searchParams.get('page') ?? 0))
    if (kind === 'blobs' && method === 'POST') {
      response.writeHead(202, { location: `/v2/${repository}/blobs/uploads/${randomUUID()}?state=a%2Fb` })
      return void response.end()
    }
    if (kind === 'blobs' && method === 'PUT') return this.#storeBlob(request, response, searchParams)
    if (kind === 'blobs') return this.#sendBlob(response, reference)
    return refuse(response, 404, 'NOT_FOUND', '404 page not found')
  }

  #sendManifest(response: ServerResponse, repository: string, reference: string): void {
    const digest = this.digestOf(repository, reference) ?? reference
    const manifest = this.#manifests.get(`${repository}@${digest}`)
    if (!manifest) {
      refuse(response, 404, 'MANIFEST_UNKNOWN', 'manifest unknown')
      return
    }
    response.writeHead(200, {
      'content-type': manifest.mediaType,
      'content-length': manifest.bytes.length,
      'docker-content-digest': digest,
    })
    response.end(manifest.bytes)
  }

  async #storeManifest(
    request: IncomingMessage,
    response: ServerResponse,
    repository: string,
    reference: string,
  ): Promise<void> {
    const text = await readText(request)
    const isPinned = reference.startsWith('sha256:')
    if (isPinned && digestOf(text) !== reference)
      return refuse(response, 400, 'DIGEST_INVALID', 'provided digest did not match uploaded content')
    const tag = isPinned ? undefined : reference
    const { digest } = this.putManifest(repository, text, request.headers['content-type'], tag)
    response.writeHead(201, {
      location: `/v2/${repository}/manifests/${digest}`,
      'docker-content-digest': digest,
    })
    response.end()
  }

  #sendBlob(response: ServerResponse, digest: string): void {
    const bytes = this.#blobs.get(digest)
    if (!bytes) {
      refuse(response, 404, 'BLOB_UNKNOWN', 'blob unknown to registry')
      return
    }
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytes.length })
    response.end(bytes)
  }

  async #storeBlob(
    request: IncomingMessage,
    response: ServerResponse,
    query: URLSearchParams,
  ): Promise<void> {
    const bytes = await buffer(request)
    if (query.get('state') !== 'a/b' || digestOf(bytes) !== query.get('digest'))
      return refuse(response, 400, 'BLOB_UPLOAD_INVALID', 'blob upload invalid')
    const { digest } = this.putBlob(bytes)
    response.writeHead(201, { 'docker-content-digest': digest })
    response.end()
  }

  #sendReferrers(response: ServerResponse, repository: string, digest: string, page: number): void {
    const all = this.#referrersOf(repository, digest)
    const size = this.#options.pageSize ?? (all.length || 1)
    const manifests = all.slice(page * size, (page + 1) * size)
    if ((page + 1) * size < all.length)
      response.setHeader('link', `</v2/${repository}/referrers/${digest}?page=${page + 1}>; rel="next"`)
    response.setHeader('content-type', OCI_INDEX)
    response.end(JSON.stringify({ schemaVersion: 2, mediaType: OCI_INDEX, manifests }))
  }

  #referrersOf(repository: string, digest: string): object[] {
    return [...this.#manifests].flatMap(([key, { bytes, mediaType }]) => {
      if (!key.startsWith(`${repository}@`)) return []
      const { subject, artifactType, config, annotations } = JSON.parse(bytes.toString())
      if (subject?.digest !== digest) return []
      return [
        {
          mediaType,
          digest: digestOf(bytes),
          size: bytes.length,
          artifactType: artifactType ?? config?.mediaType,
          annotations,
        },
      ]
    })
  }

  #challenge(repository: string, method: string): string {
    const { auth } = this.#options
    if (auth?.scheme !== 'bearer') return 'Basic realm="registry"'
    const realm = auth.realm ?? `${this.#options.certificate ? 'https' : 'http'}://${this.host}/token`
    return `Bearer realm="${realm}",service="registry",scope="${scopeOf(repository, method)}"`
  }

  #isAuthorized(authorization: string | undefined, repository: string, method: string): boolean {
    const { auth } = this.#options
    if (!auth) return true
    if (auth.scheme === 'basic') return authorization === basic(auth.username, auth.password)
    const scope = this.#tokens.get(authorization?.replace(/^Bearer /, '') ?? '')
    return scope?.startsWith(scopeOf(repository, method)) === true
  }

  async #issueToken(
    request: IncomingMessage,
    response: ServerResponse,
    query: URLSearchParams,
  ): Promise<void> {
    const { auth } = this.#options
    if (auth?.scheme !== 'bearer') return refuse(response, 404, 'NOT_FOUND', '404 page not found')
    const form = new URLSearchParams(await readText(request))
    const isKnown =
      request.method === 'POST'
        ? form.get('grant_type') === 'refresh_token' && form.get('refresh_token') === auth.identityToken
        : auth.username === undefined ||
          request.headers.authorization === basic(auth.username, auth.password ?? '')
    if (!isKnown) return refuse(response, 401, 'UNAUTHORIZED', 'incorrect username or password')
    const token = randomUUID()
    this.#tokens.set(token, form.get('scope') ?? query.get('scope') ?? '')
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ token, expires_in: auth.expiresInSeconds }))
  }
}

function scopeOf(repository: string, method: string): string {
  return `repository:${repository}:${method === 'GET' || method === 'HEAD' ? 'pull' : 'pull,push'}`
}

function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

function refuse(response: ServerResponse, status: number, code: string, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ errors: [{ code, message }] }))
}
