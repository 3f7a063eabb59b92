import { ReadStream, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import type { SendOptions, SendResult } from '@fastify/send'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { setCommonHeaders } from '../../contract/common-headers.ts'
import { StaticFolderError } from '../../errors/errors.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import { FD_FOLDER } from '../../runtime/wasi/directory.ts'
import { type OpenedEntry, openBelow } from './static-file.ts'

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
  for (const folder of Object.values(folders)) await checkFolder(folder)
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

async function checkFolder(folder: string): Promise<void> {
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
    const file = names && (await openFile(folder, names))
    if (!file) return reply.callNotFound()
    return answer(request, reply, file, send)
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
  const names = path.slice(prefix.length).split('/').map(decode)
  if (names.at(-1) === '') names[names.length - 1] = INDEX
  return names.every(isName) ? names : undefined
}

function decode(part: string): string | undefined {
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
async function openFile(
  folder: string,
  names: readonly string[],
): Promise<(OpenedEntry & { name: string }) | undefined> {
  const entry = await openBelow(folder, names)
  if (entry?.stat.isFile()) return { ...entry, name: names.at(-1) ?? '' }
  await entry?.handle.close()
  return entry && names.at(-1) !== INDEX ? openFile(folder, [...names, INDEX]) : undefined
}

async function answer(
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
