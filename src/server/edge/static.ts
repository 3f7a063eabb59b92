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
 * Serves the files that are really below these folders, by GET and HEAD: no hidden ones, no lists. A route at the URL
 * of a file wins.
 *
 * @param folders - By the path that their URLs begin with.
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

/** Answers a file's ranges and conditions: what `@fastify/static` is made of. That plugin opens files by path only. */
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
    throw new StaticFolderError(folder, found ? 'it is not a folder' : 'there is no such folder')
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
 * The parts of a URL's path behind the prefix. All are names that a folder may have: no part of a part is decoded to a
 * separator, none is hidden.
 *
 * @returns undefined if one of them can be none, or the URL has the prefix in another spelling.
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
  // Until it has opened the file for itself, by the descriptor that we hold.
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

/** The names are checked already. The path has no type: it is a descriptor's. */
const OPTIONS: SendOptions = { dotfiles: 'allow', index: false, contentType: false }

function typeOf(name: string, { mime, isUtf8MimeType }: Send): string {
  const type = mime.getType(name) ?? 'application/octet-stream'
  return isUtf8MimeType(type) ? `${type}; charset=utf-8` : type
}

/** The descriptor is of a file or directory that is below the folder. Who has it closes it. */
interface OpenedEntry {
  readonly handle: FileHandle
  readonly stat: Stats
  /** Leads to what is open, whatever has been moved or swapped since; without `/proc`, where it was found. */
  readonly path: string
}

/**
 * Opens what is really below a folder: links are followed as long as they do not lead out of it. Where it is, is
 * looked up before it is opened, so that nothing outside is, and once more of the open descriptor, so that somebody who
 * swaps a directory for a link in between gains nothing.
 *
 * Where there is no `/proc` (macOS), the second look goes by path: somebody who swaps
 * there at the right moments, thrice, can still lead us astray.
 *
 * @param names - Its path below the folder: no `..`, no separators.
 * @param fdFolder - Where the host shows open descriptors; tests name a folder that does not exist.
 * @returns undefined if there is nothing, or what is there is neither a file nor a directory, or not below the folder.
 * @throws an error of the file system, if it is there but cannot be opened.
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

/** Not `O_PATH`, of which Node knows nothing. A FIFO does not block, and a terminal does not become the process's. */
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
 * Whether the folder has entries of these very names. Windows and its file systems open others too, and among them
 * hidden ones: `ENV~1` for `.env`, `page::$DATA`, `page.`. Only a name that may be such a one is looked up: a folder may
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

/** `ENXIO`: it is a socket. */
const ABSENCES = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'ENXIO'])

function isAbsence(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ABSENCES.has(String(error.code))
}
