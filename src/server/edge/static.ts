import { ReadStream, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { SendOptions } from '@fastify/send'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { setCommonHeaders } from '../../contract/answer-headers.ts'
import {
  MethodNotAllowedError,
  PreconditionFailedError,
  RangeNotSatisfiableError,
  StaticFolderError,
} from '../../errors/errors.ts'
import { FD_FOLDER } from '../../platform/descriptors.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import { type OpenedEntry, openBelow } from './open-below.ts'

const INDEX = 'index.html'

/** Answers a request that no route answers. @returns false if it does not. */
export type AnswerUnrouted = (request: FastifyRequest, reply: FastifyReply) => Promise<boolean>

/** A folder of files. */
interface StaticFolder {
  /** The prefix of its URLs. It ends with a slash. */
  readonly prefix: string
  readonly path: string
  /** The header `Cache-Control` of its files. */
  readonly cacheControl: string
}

type Send = typeof import('@fastify/send')

/**
 * Serves the files in these folders by GET and HEAD. Hidden files and directory listings are not served. A route for these
 * methods at the URL of a file takes precedence.
 *
 * @param present - The folders by their URL prefix.
 * @param isPublic - Whether shared caches may keep the files, because no key is needed.
 * @returns what answers requests that no route wants: other methods at the URL of a file, and the prefix without its slash.
 * @throws {@link PackageMissingError}, {@link StaticFolderError}
 */
export async function addStatic(
  app: FastifyInstance,
  present: Readonly<Record<string, string>>,
  isPublic: boolean,
): Promise<AnswerUnrouted> {
  const load = () => import('@fastify/send')
  const { default: send } = await loadPackage('the option static', '@fastify/send', load)
  for (const folder of Object.values(present)) await refuseUnusableFolder(folder)
  const folders = Object.entries(present).map(([prefix, folder]) => ({
    prefix: prefix.endsWith('/') ? prefix : `${prefix}/`,
    path: resolve(folder),
    cacheControl: `${isPublic ? 'public' : 'private'}, max-age=0`,
  }))
  for (const folder of folders) {
    app.route({
      method: ['GET', 'HEAD'],
      url: `${folder.prefix}*`,
      async handler(request, reply) {
        return (await answerFrom(folder, request, reply, send)) ? reply : reply.callNotFound()
      },
    })
  }
  return async (request, reply) => {
    const { method } = request
    const isRead = method === 'GET' || method === 'HEAD'
    for (const folder of folders) {
      if (isRead && isPrefixOf(folder, pathOf(request))) return answerFrom(folder, request, reply, send)
      if (!isRead && (await hasFile(folder, request))) throw new MethodNotAllowedError(method, 'GET, HEAD')
    }
    return false
  }
}

async function refuseUnusableFolder(folder: string): Promise<void> {
  const found = statSync(folder, { throwIfNoEntry: false })
  if (!found?.isDirectory()) {
    throw new StaticFolderError(folder, found ? 'it is not a folder' : 'the folder does not exist')
  }
  try {
    await (await openBelow(resolve(folder), []))?.handle.close()
  } catch (error) {
    throw new StaticFolderError(folder, problemWith(error), { cause: error })
  }
}

function problemWith(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const isDenied = 'code' in error && error.code === 'ERR_ACCESS_DENIED'
  const needs = `it takes --allow-fs-read=FOLDER/* and, on Linux, --allow-fs-read=${FD_FOLDER}/*`
  return isDenied ? `Node's permission model does not allow it: ${needs}` : error.message
}

/** @returns whether the folder has something at the URL. */
async function answerFrom(
  folder: StaticFolder,
  request: FastifyRequest,
  reply: FastifyReply,
  send: Send,
): Promise<boolean> {
  const place = placeIn(folder, pathOf(request))
  const found = place && (await find(folder, place))
  if (!found) return false
  setCommonHeaders(reply)
  const { cacheControl } = folder
  if (found === 'folder')
    reply.header('cache-control', cacheControl).redirect(folderUrl(folder, place, request), 301)
  else {
    const name = place.isFolder ? INDEX : place.names.at(-1)
    await sendFile(request, reply, { ...found, cacheControl, name: name ?? INDEX }, send)
  }
  return true
}

async function hasFile(folder: StaticFolder, request: FastifyRequest): Promise<boolean> {
  const place = placeIn(folder, pathOf(request))
  const found = place && (await find(folder, place))
  if (typeof found === 'object') await found.handle.close()
  return found !== undefined
}

/** What a URL names below a folder. */
interface NamedPath {
  /** Valid file names: none contains a separator, and none is hidden. */
  readonly names: readonly string[]
  /** Whether the URL ends with a slash. */
  readonly isFolder: boolean
}

function pathOf({ raw: { url = '' } }: FastifyRequest): string {
  return url.split('?', 1)[0] ?? ''
}

/** Whether it is the prefix without its slash. */
function isPrefixOf({ prefix }: StaticFolder, path: string): boolean {
  return `${path}/` === prefix
}

/** @returns undefined if a name is invalid, or the URL spells the prefix differently. */
function placeIn(folder: StaticFolder, path: string): NamedPath | undefined {
  if (isPrefixOf(folder, path)) return { names: [], isFolder: false }
  if (!path.startsWith(folder.prefix)) return undefined
  const names = path.slice(folder.prefix.length).split('/').map(decodeSegment)
  const isFolder = names.at(-1) === ''
  if (isFolder) names.pop()
  return names.every(isName) ? { names, isFolder } : undefined
}

function decodeSegment(part: string): string | undefined {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined // not UTF-8
  }
}

function isName(name: string | undefined): name is string {
  return name !== undefined && name !== '' && !name.startsWith('.') && !/[/\\\0]/.test(name)
}

/** A file, or a folder with an index whose URL needs a slash: relative links in the index would lead elsewhere. */
async function find({ path }: StaticFolder, place: NamedPath): Promise<OpenedEntry | 'folder' | undefined> {
  const { names, isFolder } = place
  const entry = await openBelow(path, isFolder ? [...names, INDEX] : names)
  if (entry?.stat.isFile()) return entry
  await entry?.handle.close()
  if (!entry || isFolder) return undefined
  const index = await openBelow(path, [...names, INDEX])
  await index?.handle.close()
  return index?.stat.isFile() ? 'folder' : undefined
}

/** No other host: what follows the first slash is neither a slash nor a backslash. */
function folderUrl({ prefix }: StaticFolder, { names }: NamedPath, request: FastifyRequest): string {
  const path = names.map((name) => `${encodeURIComponent(name)}/`).join('')
  const query = (request.raw.url ?? '').slice(pathOf(request).length)
  return prefix + path + query.replace(/[^!-~]/g, encodeByte)
}

function encodeByte(character: string): string {
  return `%${Buffer.from(character, 'latin1').toString('hex').toUpperCase()}`
}

interface StaticFile extends OpenedEntry {
  readonly cacheControl: string
  /** Decides the content type. */
  readonly name: string
}

async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  { handle, path, stat, cacheControl, name }: StaticFile,
  send: Send,
): Promise<void> {
  const asked = withRange(request, stat.size)
  const sent = await send(asked, encodeURI(path), OPTIONS).catch(async (error) => {
    await handle.close()
    throw error
  })
  const { stream, statusCode, headers } = sent
  // Keep the descriptor until send has opened the file through it.
  if (stream instanceof ReadStream) stream.once('ready', close).once('close', close)
  else await handle.close()
  function close() {
    handle.close().catch((error) => request.log.warn({ err: error }, 'a file could not be closed'))
  }
  if (statusCode === 412) throw new PreconditionFailedError()
  if (statusCode === 416) throw new RangeNotSatisfiableError(stat.size)
  if (sent.type === 'error') throw sent.metadata.error
  reply
    .code(statusCode)
    .headers({ ...headers, 'cache-control': cacheControl })
    .type(typeOf(name, send))
  reply.send(statusCode === 304 ? undefined : stream)
}

/** The names are already checked. The path has no type, because it is a descriptor's. */
const OPTIONS: SendOptions = { dotfiles: 'allow', index: false, contentType: false, cacheControl: false }

/**
 * The request with the range that send shall see. Only GET has one (RFC 9110, section 14.2), an empty file has none, and a
 * weak tag, as send makes them, never allows one (section 13.1.5). The last bytes of a file that has fewer are the whole file
 * (section 14.1.2), which send refuses.
 */
function withRange({ method, raw }: FastifyRequest, size: number): FastifyRequest['raw'] {
  const { range, 'if-range': validator = '' } = raw.headers
  if (range === undefined) return raw
  const isIgnored = method !== 'GET' || size === 0 || validator.includes('"')
  const isWhole = Number(/^ *bytes= *-(\d+) *$/.exec(range)?.[1]) > size
  if (!isIgnored && !isWhole) return raw
  const headers = { ...raw.headers, range: isIgnored ? undefined : 'bytes=0-' }
  return Object.create(raw, { headers: { value: headers } })
}

function typeOf(name: string, { mime, isUtf8MimeType }: Send): string {
  // The package takes a whole name without a dot for an extension.
  const type = (name.includes('.') && mime.getType(name)) || 'application/octet-stream'
  return isUtf8MimeType(type) ? `${type}; charset=utf-8` : type
}
