import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { setCommonHeaders } from '../contract/common-headers.ts'
import { StaticFolderError } from '../errors.ts'
import { loadPackage } from '../optional-package.ts'

/**
 * Serves the files of folders, by GET and HEAD: no hidden ones, no lists. A route at the URL of a file wins.
 *
 * @param folders - By the path that their URLs begin with.
 * @throws {@link PackageMissingError}, {@link StaticFolderError}
 */
export async function addStatic(
  app: FastifyInstance,
  folders: Readonly<Record<string, string>>,
): Promise<void> {
  const name = '@fastify/static'
  const { default: files } = await loadPackage('the option static', name, () => import('@fastify/static'))
  for (const folder of Object.values(folders)) checkFolder(folder)
  app.register(async (scope) => {
    scope.addHook('onRequest', (_request, reply, done) => {
      setCommonHeaders(reply)
      done()
    })
    for (const [prefix, folder] of Object.entries(folders)) {
      await scope.register(files, { prefix, root: resolve(folder), dotfiles: 'ignore', decorateReply: false })
    }
  })
}

function checkFolder(folder: string): void {
  const found = statSync(folder, { throwIfNoEntry: false })
  if (found?.isDirectory()) return
  throw new StaticFolderError(folder, found ? 'it is not a folder' : 'there is no such folder')
}
