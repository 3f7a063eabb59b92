import { FleetContentError } from '../../errors/errors.ts'
import { sha256, sha256InSlices } from '../../plugin/source/digest.ts'
import { bytesOf, type ModuleBytes } from '../../plugin/source/module-bytes.ts'
import { readSource, type SourceOptions } from '../../plugin/source/source.ts'
import type { Edits } from '../edits.ts'
import { digestsOf } from '../state-folder.ts'
import { renderState } from '../state-json.ts'
import type { FleetStore } from './fleet-store.ts'
import { renderShared, type SharedConfiguration } from './shared-configuration.ts'

/** A state of a fleet as text, by which it is stored. */
export interface StateTexts {
  readonly configuration: string
  readonly edits: string
}

/** @param configuration - Text that has not changed. */
export function renderTexts(
  configuration: SharedConfiguration | { readonly text: string },
  edits: Edits,
): StateTexts {
  const text = 'text' in configuration ? configuration.text : renderShared(configuration)
  return { configuration: text, edits: renderState(edits) }
}

/** The digests that a revision names. */
export function digestsOfTexts({ configuration, edits }: StateTexts) {
  return { configuration: sha256(configuration), edits: sha256(edits) }
}

/**
 * Stores all contents of a state that the store does not have.
 *
 * @param module - The bytes of a module, by digest.
 * @param moduleMax - Larger modules stay in their registry.
 * @returns the digests of all contents that are in the store.
 * @throws {@link FleetContentError} for a module that is too large and not from a registry.
 */
export async function storeContents(
  store: FleetStore,
  texts: StateTexts,
  edits: Edits,
  module: (digest: string) => Promise<ModuleBytes>,
  moduleMax: number,
): Promise<readonly string[]> {
  const own = new Map([texts.configuration, texts.edits].map((text) => [sha256(text), Buffer.from(text)]))
  const modules = await contentsOf(edits, moduleMax)
  const uses = [...new Set([...own.keys(), ...modules])]
  for (const digest of await store.missing(uses)) {
    const bytes = own.get(digest) ?? (await bytesOf(await module(digest)))
    await store.add(digest, bytes)
  }
  return uses
}

/**
 * The digests of the modules of all versions, and of their detached signatures, except those that stay in their registry.
 *
 * @throws {@link FleetContentError} for a module that is too large and not from a registry.
 */
export async function contentsOf(edits: Edits, moduleMax: number): Promise<readonly string[]> {
  const large = new Map<string, string | undefined>()
  for (const { versions } of edits.plugins.values())
    for (const { modules } of versions)
      for (const { digest, bytes, place } of modules) if (bytes > moduleMax) large.set(digest, place)
  for (const [digest, place] of large) {
    if (place?.startsWith('oci://')) continue
    throw new FleetContentError(
      `module ${digest.slice(0, 12)}`,
      `it has more than ${moduleMax} bytes: push it to a registry and name it by oci://, or raise fleet.moduleMax`,
    )
  }
  return [...(await digestsOf(edits))].filter((digest) => !large.has(digest))
}

/** A content with the right digest. @throws {@link FleetContentError} */
export async function verifiedContent(
  store: Pick<FleetStore, 'content'>,
  digest: string,
  what: string,
): Promise<Uint8Array> {
  const bytes = await store.content(digest)
  if (!bytes) throw new FleetContentError(what, `${digest} is missing`)
  if ((await sha256InSlices(bytes)) === digest) return bytes
  throw new FleetContentError(what, `the bytes of ${digest} do not match their digest`)
}

/** The references of modules that may stay in their registry, by digest. */
export function placesOf({ plugins }: Edits): ReadonlyMap<string, string> {
  const modules = [...plugins.values()].flatMap(({ versions }) => versions.flatMap(({ modules }) => modules))
  return new Map(
    modules.flatMap(({ digest, place }) => (place?.startsWith('oci://') ? [[digest, place] as const] : [])),
  )
}

/**
 * A module of a stored revision.
 *
 * @param place - Its reference, if it is from a registry: it is read there if the store does not have it.
 * @throws {@link FleetContentError}
 */
export async function storedModule(
  store: FleetStore,
  digest: string,
  place: string | undefined,
  sources: SourceOptions,
): Promise<Uint8Array> {
  const isElsewhere = place !== undefined && (await store.missing([digest])).length > 0
  if (!isElsewhere) return verifiedContent(store, digest, 'module')
  const { modules } = await readSource(place, sources)
  const found = modules.find((module) => module.digest === digest)
  if (!found) throw new FleetContentError('module', `${place} does not have ${digest}`)
  return found.bytes
}
