import { sourceName } from '../source/url.ts'
import { readTar, startsAsTar, TAR_START_BYTES, type TarEntry } from './tar.ts'
import { type UnpackBudget, UnpackError, unpack, unpackWhole } from './unpack.ts'

/** Media types of the layers of container images: OCI's and Docker's. Their content decides how they are packed. */
export const IMAGE_LAYER_TYPES: readonly string[] = [
  'application/vnd.oci.image.layer.v1.tar',
  'application/vnd.oci.image.layer.v1.tar+gzip',
  'application/vnd.oci.image.layer.v1.tar+zstd',
  'application/vnd.docker.image.rootfs.diff.tar',
  'application/vnd.docker.image.rootfs.diff.tar.gzip',
  'application/vnd.docker.image.rootfs.diff.tar.zstd',
]

/** Limit of `.wasm` files in an image. */
const MAX_MODULES = 64

/** A module in an image: its path, and its bytes unless it is a link or another special file. */
interface ImageModule {
  readonly path: string
  readonly bytes: Uint8Array | undefined
}

/** The modules in the layers of a container image that were read so far. */
export class ImageModules {
  readonly #found = new Map<string, ImageModule>()
  readonly #budget: UnpackBudget

  /** @param budget - For all layers together. */
  constructor(budget: UnpackBudget) {
    this.#budget = budget
  }

  /**
   * Adds the layer above those that were added. A layer may also be a file, raw or packed: ORAS pushes one without a media type as a
   * layer of an image. Then it has a title, and counts if it is a module.
   *
   * @param title - The file name of the layer, if it has one.
   * @throws {@link UnpackError}
   */
  async add(layer: Uint8Array, title: string | undefined): Promise<void> {
    const start = await startOf(layer, this.#budget)
    if (startsAsModule(start)) {
      const path = title === undefined ? 'plugin.wasm' : sourceName(title)
      this.#found.set(path, { path, bytes: await unpackWhole(layer, this.#budget) })
      return
    }
    if (title !== undefined && !startsAsTar(start)) return
    if (start.length === 0) throw new UnpackError('a layer is empty')
    const entries = await readTar(unpack(layer, this.#budget), isModulePath)
    // Whiteouts of a layer hide the layers below it, wherever they are in the archive.
    for (const { path } of entries) this.#whiteOut(path)
    for (const entry of entries) this.#put(entry)
  }

  /**
   * Those named `plugin.wasm`; without one, all others.
   *
   * @returns in the order of their paths.
   */
  candidates(): readonly ImageModule[] {
    const all = [...this.#found.values()].sort((a, b) => (a.path < b.path ? -1 : 1))
    const named = all.filter(({ path }) => nameOf(path) === 'plugin.wasm')
    return named.length > 0 ? named : all
  }

  /** @see {@link https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts} */
  #whiteOut(path: string): void {
    const name = nameOf(path)
    if (!name.startsWith('.wh.')) return
    const folder = path.slice(0, path.length - name.length)
    if (name === '.wh..wh..opq') this.#removeBelow(folder)
    else this.#remove(folder + name.slice('.wh.'.length))
  }

  #put({ path, kind, bytes }: TarEntry): void {
    if (kind === 'folder') {
      this.#found.delete(path)
      return
    }
    this.#remove(path)
    if (!isModulePath(path)) return
    if (this.#found.size === MAX_MODULES) throw new UnpackError(`it has more than ${MAX_MODULES} .wasm files`)
    this.#found.set(path, { path, bytes })
  }

  #remove(path: string): void {
    this.#found.delete(path)
    this.#removeBelow(`${path}/`)
  }

  /** @param folder - Ends in a slash; empty for the root. */
  #removeBelow(folder: string): void {
    for (const path of this.#found.keys()) if (path.startsWith(folder)) this.#found.delete(path)
  }
}

/** The first bytes of the content, as many as show what it is. */
async function startOf(layer: Uint8Array, budget: UnpackBudget): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of unpack(layer, budget.copy())) {
    pieces.push(piece.subarray(0, TAR_START_BYTES))
    length += piece.length
    if (length >= TAR_START_BYTES) break
  }
  return Buffer.concat(pieces)
}

/** Whether bytes begin as WebAssembly does: a module or a component. */
function startsAsModule(bytes: Uint8Array): boolean {
  return Buffer.from(bytes.subarray(0, 4)).toString('latin1') === '\0asm'
}

function isModulePath(path: string): boolean {
  const name = nameOf(path)
  return name.endsWith('.wasm') && !name.startsWith('.wh.')
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
