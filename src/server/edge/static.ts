import { constants, existsSync, lstatSync, ReadStream, type Stats, statSync } from 'node:fs'
import { type FileHandle, open, readdir, readlink, realpath } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, resolve, sep } from 'node:path'
import type { SendOptions, SendResult } from '@fastify/send'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { setCommonHeaders } from '../../contract/answer-headers.ts'
import { StaticFolderError } from '../../errors/errors.ts'
import { loadPackage } from '../../platform/packages.ts'
import { FD_FOLDER } from '../../runtime/wasi/directory.ts'

const INDEX = 'index.html'

/**
 * Serves the files in these folders by GET and HEAD. Hidden files and directory listings are not served. A route at the
 * URL of a file takes precedence.
 *
 * @param folders - By their URL prefix.
 * @throws {@link PackageMissingError}, {@link StaticFolderError}
 */
export async function addStatic(
  app: FastifyInstance,
  folders: Readonly<Record<string, string>>,
): Promise<void> {
  const send = await loadSend()
  for (const folder of Object.values(folders)) await refuseUnusableFolder(folder)
  app.register(async (scope) => {
    scope.addHook('onRequest', (_request, reply, done) => {
      setCommonHeaders(reply)
      done()
    })
    for (const [prefix, folder] of Object.entries(folders)) {
      const url = prefix.endsWith('/') ? prefix : `${prefix}/`
      scope.route({
        method: ['GET', 'HEAD'],
        url: `${url}*`,
        handler: serveFolder(resolve(folder), url, send),
      })
    }
  })
}

/** Handles ranges and conditional requests. This is the core of `@fastify/static`, which opens files only by path. */
interface Send {
  (request: FastifyRequest['raw'], path: string, options: SendOptions): Promise<SendResult>
  readonly mime: { getType(path: string): string | null }
  isUtf8MimeType(type: string): boolean
}

async function loadSend(): Promise<Send> {
  const name = '@fastify/static'
  await loadPackage('the option static', name, () => import('@fastify/static'))
  const { resolve: find } = createRequire(import.meta.url)
  return createRequire(find(name))('@fastify/send')
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

function serveFolder(folder: string, prefix: string, send: Send) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const names = namesIn(request.raw.url ?? '', prefix)
    const file = names && (await openStaticFile(folder, names))
    if (!file) return reply.callNotFound()
    return answerFile(request, reply, file, send)
  }
}

/**
 * The segments of a URL's path after the prefix. All are valid file names: no segment contains an encoded separator, and
 * none is hidden.
 *
 * @returns undefined if a segment is invalid, or the URL spells the prefix differently.
 */
function namesIn(url: string, prefix: string): string[] | undefined {
  const [path = ''] = url.split('?', 1)
  if (!path.startsWith(prefix)) return undefined
  const names = path.slice(prefix.length).split('/').map(decodeSegment)
  if (names.at(-1) === '') names[names.length - 1] = INDEX
  return names.every(isName) ? names : undefined
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

/** A file, or the index of a directory. */
async function openStaticFile(
  folder: string,
  names: readonly string[],
): Promise<(OpenedEntry & { name: string }) | undefined> {
  const entry = await openBelow(folder, names)
  if (entry?.stat.isFile()) return { ...entry, name: names.at(-1) ?? '' }
  await entry?.handle.close()
  return entry && names.at(-1) !== INDEX ? openStaticFile(folder, [...names, INDEX]) : undefined
}

async function answerFile(
  request: FastifyRequest,
  reply: FastifyReply,
  { handle, path, name }: OpenedEntry & { name: string },
  send: Send,
): Promise<FastifyReply> {
  const sent = await send(request.raw, encodeURI(path), OPTIONS).catch(async (error) => {
    await handle.close()
    throw error
  })
  const { stream, statusCode, headers, type } = sent
  // Keep the descriptor until send has opened the file through it.
  if (stream instanceof ReadStream) stream.once('ready', close).once('close', close)
  else await handle.close()
  function close() {
    handle.close().catch((error) => request.log.warn({ err: error }, 'a file could not be closed'))
  }
  if (type === 'error') throw sent.metadata.error
  reply.code(statusCode).headers(headers)
  if (statusCode !== 304) reply.type(typeOf(name, send))
  return reply.send(stream)
}

/** The names are already checked. The path has no type, because it is a descriptor's. */
const OPTIONS: SendOptions = { dotfiles: 'allow', index: false, contentType: false }

function typeOf(name: string, { mime, isUtf8MimeType }: Send): string {
  const type = mime.getType(name) ?? 'application/octet-stream'
  return isUtf8MimeType(type) ? `${type}; charset=utf-8` : type
}

/** The descriptor of a file or directory below the folder. The owner closes it. */
interface OpenedEntry {
  readonly handle: FileHandle
  readonly stat: Stats
  /** A path to the open file, even if it was moved or replaced since; without `/proc`, the original path. */
  readonly path: string
}

/**
 * Opens a path that is really below a folder: links are followed unless they lead out of it. The real path is checked
 * before opening, so that nothing outside is opened, and again for the open descriptor, so that an attacker who swaps a
 * directory for a link in between gains nothing.
 *
 * Without `/proc` (macOS), the second check uses the path: an attacker who swaps it at the right moments, three times,
 * can still evade it.
 *
 * @param names - The path segments below the folder: no `..`, no separators.
 * @param fdFolder - Where the host lists open descriptors; tests pass a folder that does not exist.
 * @returns undefined if nothing is there, or it is neither a file nor a directory, or not below the folder.
 * @throws a file system error, if it exists but cannot be opened.
 */
export async function openBelow(
  folder: string,
  names: readonly string[],
  fdFolder = FD_FOLDER,
): Promise<OpenedEntry | undefined> {
  try {
    const [top, found] = await Promise.all([realpath(folder), realpath(join(folder, ...names))])
    if (!isBelow(found, top) || !(await isSpelled(folder, names))) return undefined
    return await openReal(found, top, fdFolder)
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw error
  }
}

/** Not `O_PATH`, which Node does not support. FIFOs do not block, and a terminal does not become the controlling one. */
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY

async function openReal(found: string, top: string, fdFolder: string): Promise<OpenedEntry | undefined> {
  const handle = await open(found, READ_FLAGS)
  let entry: OpenedEntry | undefined
  try {
    entry = await checkedHandle(handle, found, top, fdFolder)
  } finally {
    if (!entry) await handle.close()
  }
  return entry
}

async function checkedHandle(
  handle: FileHandle,
  found: string,
  top: string,
  fdFolder: string,
): Promise<OpenedEntry | undefined> {
  const stat = await handle.stat()
  if (!stat.isFile() && !stat.isDirectory()) return undefined
  const link = `${fdFolder}/${handle.fd}`
  if (existsSync(link)) return isBelow(await readlink(link), top) ? { handle, stat, path: link } : undefined
  const isStill = (await realpath(found)) === found && isSameFile(lstatSync(found), stat)
  return isStill ? { handle, stat, path: found } : undefined
}

/**
 * Whether the folder has entries with exactly these names. Windows and its file systems also open aliases, even of hidden
 * entries: `ENV~1` for `.env`, `page::$DATA`, `page.`. Only names that may be aliases are looked up, because a folder may
 * have many entries.
 */
async function isSpelled(folder: string, names: readonly string[]): Promise<boolean> {
  let parent = folder
  for (const name of names) {
    if (MAY_BE_ALIAS.test(name) && !(await readdir(parent)).includes(name)) return false
    parent = join(parent, name)
  }
  return true
}

const MAY_BE_ALIAS = /[~:]|[. ]$/

function isBelow(path: string, top: string): boolean {
  return path === top || path.startsWith(top.endsWith(sep) ? top : `${top}${sep}`)
}

function isSameFile(one: Stats, other: Stats): boolean {
  return one.ino === other.ino && one.dev === other.dev
}

/** `ENXIO`: a socket. */
const ABSENCES = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'ENXIO'])

function isAbsence(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ABSENCES.has(String(error.code))
}
