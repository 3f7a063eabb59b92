import { PluginInvalidError } from '../errors/errors.ts'
import { hasTableValue } from './memory-cap.ts'
import { makeOnDemand } from './on-demand.ts'
import type { PreparedModule } from './prepare.ts'
import { makeRenewable, type Renewable } from './renewable.ts'

/** The same module, but for what it exports: the host can make an instance as new. */
export interface RenewableModule extends Omit<Renewable, 'bytes'> {
  readonly module: WebAssembly.Module
}

/**
 * The second step of loading a module.
 *
 * @throws {@link PluginInvalidError} if V8 refuses it.
 */
export async function compileModule({
  bytes,
  name,
}: Pick<PreparedModule, 'bytes' | 'name'>): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>)
  } catch (error) {
    const reason = (error as Error).message.replace(/^WebAssembly\.compile\(\): /, '')
    const hint =
      !WebAssembly.validate(TABLE_WITH_VALUE) && hasTableValue(bytes, name)
        ? '; it has a table with an initial value (WebAssembly 3.0), which needs Node.js 22 or later'
        : ''
    throw new PluginInvalidError(name, `it is not a valid module: ${reason}${hint}`, { cause: error })
  }
}

/**
 * Compiles the form of a module whose instances have few exports.
 *
 * @param prepared - One that V8 has accepted.
 * @returns undefined if there is no such form, because the module itself has few.
 */
export async function compileOnDemand({
  bytes,
  name,
}: Pick<PreparedModule, 'bytes' | 'name'>): Promise<WebAssembly.Module | undefined> {
  const form = makeOnDemand(bytes, name)
  return form && WebAssembly.compile(form as Uint8Array<ArrayBuffer>).catch(() => undefined)
}

/** The least module with a table that has an initial value. */
const TABLE_WITH_VALUE = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 4, 9, 1, 0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b],
)

/**
 * Compiles the form of a module that can be put back, in the best way that V8 accepts: a longer one may be beyond its
 * limits.
 *
 * @param prepared - One that V8 has accepted.
 * @returns undefined if there is no such form.
 */
export async function compileRenewable({
  bytes: capped,
  name,
  isWithinLimits,
}: Pick<PreparedModule, 'bytes' | 'name' | 'isWithinLimits'>): Promise<RenewableModule | undefined> {
  for (const tracks of [true, false]) {
    const form = makeRenewable(capped, name, tracks)
    if (!form) continue
    const { bytes, ...rest } = form
    if (!isWithinLimits(bytes)) continue
    const least = makeOnDemand(bytes, name, true) ?? bytes
    const module = await WebAssembly.compile(least as Uint8Array<ArrayBuffer>).catch(() => undefined)
    if (module) return { module, ...rest }
  }
  return undefined
}
