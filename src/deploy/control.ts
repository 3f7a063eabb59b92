import { resolve } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import type { Control, ControlledWanted } from '../admin/api/control.ts'
import type { Host } from '../cli/command.ts'
import type { Config, Environment } from '../options/config.ts'
import { givenAt, toData } from '../options/given.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { type ResolvedRoute, resolveRoute } from '../options/resolved-route.ts'
import { isWritableByAll } from '../platform/trusted-path.ts'
import { compilePlugin, PAGE, type Plugin } from '../plugin/plugin.ts'
import { readSource, type Source, type SourceOptions } from '../plugin/source/source.ts'
import { isUrl } from '../plugin/source/url.ts'
import type { Book, Edit, Proposal } from './book.ts'
import type { ChangeRecord } from './change-record.ts'
import { Changer, type MakeWanted, type Surroundings } from './changer.ts'
import { sourceOptions } from './loader.ts'
import type { Plan } from './plan.ts'
import { explainFailure, planAgain, planAll } from './problems.ts'

/** What is served, with the plan that it comes from. */
export interface Served extends ControlledWanted {
  readonly options: Plan['options']
  /** Path of the config file; undefined if there is none. */
  readonly file: string | undefined
  readonly warnings: readonly string[]
}

/** How what is served is made again, and changed. */
export interface ServeControl extends Omit<Control, 'changer' | 'book' | 'change'> {
  readonly changer: Changer<Served>
  /** Undefined where nobody may change anything but the files. */
  readonly book: Book | undefined
  make(edit?: Edit, modules?: ReadonlyMap<string, Uint8Array>): MakeWanted<Served>
  /** See {@link Control}. */
  change(
    reason: string,
    edit?: Edit,
    modules?: ReadonlyMap<string, Uint8Array>,
    signal?: AbortSignal,
  ): Promise<ChangeRecord>
}

/**
 * Makes what is served first.
 *
 * @param begin - See {@link Changer.open}.
 */
export async function openControl(
  config: Config,
  host: Host,
  begin: (options: CheckedServerOptions) => Promise<Surroundings>,
): Promise<ServeControl> {
  let book: Book | undefined
  let first: Plan | undefined
  let log: FastifyBaseLogger | undefined
  const make =
    (edit?: Edit, modules?: ReadonlyMap<string, Uint8Array>): MakeWanted<Served> =>
    async (onFile, signal) => {
      const place = { isServing: first !== undefined, signal, log }
      const sources = new Map<Plugin, Source>()
      let proposal: Proposal | undefined
      const plan = await (first ? planAgain : planAll)(config, host, {
        ...place,
        onFile,
        onSource: (plugin, source) => sources.set(plugin, source),
        async overlay(routes, merged) {
          book ??= await openBook(toData(merged.server) as Asked)
          proposal = await book?.propose(routes, { sources, merged, edit, modules, place })
          return proposal?.routes ?? routes
        },
      })
      first ??= plan
      return toServed(plan, proposal)
    }
  const surround = async (options: CheckedServerOptions) => {
    const surroundings = await begin(options)
    log = surroundings.log
    return surroundings
  }
  const changer = await Changer.open(make(), surround).catch(async (error) => {
    throw first ? await explainFailure(first, error) : error
  })
  return {
    changer,
    book,
    make,
    change: (reason, edit, modules, signal) => changer.change(reason, make(edit, modules), signal),
    hideSecrets: (json) => host.secrets.hideInJson(json),
    download: (url, signal) =>
      readSource(url, { ...downloadOptions(url, changer.live.wanted, host.environment), signal }),
    compile(source, options, signal) {
      const { moduleLimits, allowGc } = changer.live.wanted.options
      return compilePlugin(source, { moduleLimits, allowGc, ...options, isServing: true, signal, log })
    },
  }
}

/**
 * Who has the token names the server that is asked: ours of the environment goes only to those that the configuration
 * names too, else it could be had for the asking.
 */
function downloadOptions(url: string, { options, planned }: Served, environment: Environment): SourceOptions {
  const all = sourceOptions(options, environment)
  const known = planned.map(({ given }) => originOf(String(toData(givenAt(given, ['plugin']) ?? given))))
  const { authorization, maxBytes = options.uploadLimit } = all
  return {
    ...all,
    authorization: known.includes(originOf(url) ?? '') ? authorization : undefined,
    maxBytes: Math.min(maxBytes, options.uploadLimit),
  }
}

function originOf(text: string): string | undefined {
  return isUrl(text) && URL.canParse(text) ? new URL(text).origin : undefined
}

/** Options that need a book, before their check. */
interface Asked {
  readonly admin?: unknown
  readonly state?: unknown
}

/** Loaded by those who can change something, or could. */
async function openBook({ admin, state }: Asked): Promise<Book | undefined> {
  if (admin === undefined && state === undefined) return undefined
  const { Book } = await import('./book.ts')
  const { changesInFolder, changesInMemory } = await import('./state-folder.ts')
  return Book.open(typeof state === 'string' ? changesInFolder(resolve(state)) : changesInMemory())
}

function toServed(
  { options, plugins, leftOut, warnings, planned, file }: Plan,
  proposal: Proposal | undefined,
): Served {
  const openFile = `every user may write to ${file}, and so have any code run here: chmod o-w ${file}`
  const left = `functions and files whose names cannot be routes were left out: ${leftOut.join(', ')}`
  return {
    options,
    file,
    planned,
    pages: Math.max(
      ...options.routes.flatMap((route, index) => {
        const plugin = plugins[index]
        return plugin ? pagesOf(resolveRoute(route, plugin)) : []
      }),
    ),
    warnings: [
      ...(file !== undefined && isWritableByAll(file) ? [openFile] : []),
      ...(leftOut.length > 0 ? [left] : []),
      ...warnings,
      ...(proposal?.warnings ?? []),
    ],
    commit: async () => proposal?.commit(),
  }
}

/** Pages of the largest memory that a route needs: the guest's, or the kernel's, which adds a quarter to its blocks. */
function pagesOf({ blockLimit, memoryMax }: ResolvedRoute): number {
  return Math.max(memoryMax, Math.ceil((blockLimit * 1.25) / PAGE) + 2)
}
