import process from 'node:process'
import { openInlinePlugin } from './extism/inline-plugin.ts'
import { type ManifestLike, readManifest } from './extism/manifest.ts'
import type { Capabilities, ExtismPlugin, ExtismPluginOptions, GuestOptions } from './extism/plugin.ts'
import { openThreadPlugin } from './extism/thread-plugin.ts'
import { suspending } from './platform/missing-types.ts'

export type {
  GuestConfig as PluginConfig,
  GuestConfig as PluginConfigLike,
  GuestContext as CallContext,
  GuestContext as CurrentPlugin,
  LogLevel,
  MemoryOptions,
} from './extism/guest-context.ts'
export type {
  ExtismManifest as Manifest,
  ManifestLike,
  ManifestWasm,
  ManifestWasmData,
  ManifestWasmModule,
  ManifestWasmPath,
  ManifestWasmResponse,
  ManifestWasmUrl,
} from './extism/manifest.ts'
export type { PluginOutput } from './extism/output.ts'
export type { Capabilities, ExtismPlugin as Plugin, ExtismPluginOptions } from './extism/plugin.ts'

/** The capabilities of this platform; the same names as in `@extism/extism`. */
export const CAPABILITIES: Capabilities = {
  supportsJSPromiseInterface: suspending !== undefined,
  allowSharedBufferCodec: false,
  manifestSupportsPaths: true,
  crossOriginChecksEnforced: false,
  fsAccess: true,
  hasWorkerCapability: true,
  supportsWasiPreview1: true,
  supportsTimeouts: true,
  extismStdoutEnvVarSet: Boolean(process.env.EXTISM_ENABLE_WASI_OUTPUT),
}

/**
 * Creates an Extism plug-in, without a server, on the kernel of wasm-serve. It accepts the arguments of `createPlugin`
 * of `@extism/extism` 2.0.0-rc13, and the plug-in behaves in the same way; `docs/guide/extism.md` lists the
 * differences.
 *
 * @throws TypeError if the manifest is invalid or an option needs `runInWorker`; Error if a digest differs or an import
 * is missing; errors of the guest during its start.
 */
export async function createPlugin(
  manifest: ManifestLike | PromiseLike<ManifestLike>,
  opts: ExtismPluginOptions = {},
): Promise<ExtismPlugin> {
  const { runInWorker = false, useWasi = false, fetch = globalThis.fetch } = opts
  const { modules, options: ofManifest } = await readManifest(await manifest, fetch)
  const options: GuestOptions = {
    allowedPaths: opts.allowedPaths || ofManifest.allowedPaths || {},
    allowedHosts: opts.allowedHosts || ofManifest.allowedHosts || [],
    config: opts.config || ofManifest.config || {},
    memory: opts.memory || ofManifest.memory || {},
    // A manifest defines the permissions of the plug-in wherever it runs; only a thread can be stopped.
    timeoutMs: opts.timeoutMs || (runInWorker && ofManifest.timeoutMs) || undefined,
    useWasi,
    enableWasiOutput: opts.enableWasiOutput ?? (useWasi && CAPABILITIES.extismStdoutEnvVarSet),
    logger: opts.logger ?? console,
    logLevel: opts.logLevel || 'silent',
    functions: opts.functions ?? {},
    fetch,
    allowHttpResponseHeaders: opts.allowHttpResponseHeaders === true,
    nodeWorkerArgs: opts.nodeWorkerArgs ?? {},
  }
  checkPluginOptions(options, runInWorker)
  return runInWorker ? openThreadPlugin(modules, options) : openInlinePlugin(modules, options)
}

/** The SDK's wording is kept: programs match these messages. */
function checkPluginOptions(
  { allowedHosts, allowedPaths, timeoutMs }: GuestOptions,
  runInWorker: boolean,
): void {
  if (allowedHosts.length > 0 && !runInWorker && !suspending)
    throw new TypeError(
      '"allowedHosts" requires "runInWorker: true". HTTP functions are only available to plugins running in a worker.',
    )
  if (timeoutMs !== undefined && !runInWorker)
    throw new TypeError(
      '"timeout" requires "runInWorker: true". Call timeouts are only available to plugins running in a worker.',
    )
  for (const host of Object.values(allowedPaths))
    if (host.startsWith('ro:')) throw new Error(`Readonly dirs are not supported: ${host}`)
}

export { createPlugin as default, createPlugin as newPlugin }

/** For `require`, where the SDK's export is the function. */
const required = Object.assign(createPlugin.bind(undefined), {
  CAPABILITIES,
  createPlugin,
  newPlugin: createPlugin,
  default: createPlugin,
})

export { required as 'module.exports' }
