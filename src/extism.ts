import { compileWithDeadline, hasDeadline } from './extism/deadline.ts'
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

/** Capabilities of this platform, with the names of `@extism/extism`. */
export const CAPABILITIES: Capabilities = {
  supportsJSPromiseInterface: suspending !== undefined,
  allowSharedBufferCodec: false,
  manifestSupportsPaths: true,
  crossOriginChecksEnforced: false,
  fsAccess: true,
  hasWorkerCapability: true,
  supportsWasiPreview1: true,
  // `globalThis`: an import of `node:process` would open the standard streams.
  supportsTimeouts: !('bun' in globalThis.process.versions),
  extismStdoutEnvVarSet: Boolean(globalThis.process.env.EXTISM_ENABLE_WASI_OUTPUT),
}

/**
 * Opens an Extism plug-in without a server. The arguments and the plug-in are those of `createPlugin` of `@extism/extism`
 * 2.0.0-rc13; `docs/serve/extism.md` lists the differences.
 *
 * @throws TypeError if the manifest is invalid, or an option needs `runInWorker`; Error if a digest does not match, or an
 * import cannot be resolved; the error of a guest that fails to start.
 */
export async function createPlugin(
  manifest: ManifestLike | PromiseLike<ManifestLike>,
  opts: ExtismPluginOptions = {},
): Promise<ExtismPlugin> {
  const { runInWorker = false, useWasi = false, fetch = globalThis.fetch } = opts
  const { modules, options: ofManifest } = await readManifest(
    await manifest,
    fetch,
    (bytes, { timeoutMs }) =>
      !runInWorker && (opts.timeoutMs || timeoutMs) ? compileWithDeadline(bytes) : WebAssembly.compile(bytes),
  )
  const hasLimit = Boolean(opts.timeoutMs || ofManifest.timeoutMs)
  const canEnd = runInWorker || (hasLimit && modules.every(hasDeadline))
  const options: GuestOptions = {
    allowedPaths: opts.allowedPaths || ofManifest.allowedPaths || {},
    allowedHosts: opts.allowedHosts || ofManifest.allowedHosts || [],
    config: opts.config || ofManifest.config || {},
    memory: opts.memory || ofManifest.memory || {},
    // The limit of a manifest is ignored where the guest cannot be ended.
    timeoutMs: opts.timeoutMs || (canEnd && ofManifest.timeoutMs) || undefined,
    useWasi,
    enableWasiOutput: opts.enableWasiOutput ?? (useWasi && CAPABILITIES.extismStdoutEnvVarSet),
    logger: opts.logger ?? console,
    logLevel: opts.logLevel || 'silent',
    functions: opts.functions ?? {},
    fetch,
    allowHttpResponseHeaders: opts.allowHttpResponseHeaders === true,
    nodeWorkerArgs: opts.nodeWorkerArgs ?? {},
  }
  checkPluginOptions(options, runInWorker, canEnd)
  return runInWorker ? openThreadPlugin(modules, options) : openInlinePlugin(modules, options)
}

/** The messages are those of the SDK: programs compare them. */
function checkPluginOptions(
  { allowedHosts, allowedPaths, functions, timeoutMs }: GuestOptions,
  runInWorker: boolean,
  canEnd: boolean,
): void {
  if (allowedHosts.length > 0 && !runInWorker && !suspending)
    throw new TypeError(
      '"allowedHosts" requires "runInWorker: true". HTTP functions are only available to plugins running in a worker.',
    )
  if (timeoutMs !== undefined && !canEnd)
    throw new TypeError(
      '"timeout" requires "runInWorker: true". Call timeouts are only available to plugins running in a worker.',
    )
  if (timeoutMs !== undefined && runInWorker && !CAPABILITIES.supportsTimeouts)
    throw new TypeError(
      '"timeout" is not supported: this platform cannot end a thread whose guest is in a loop',
    )
  for (const host of Object.values(allowedPaths))
    if (host.startsWith('ro:')) throw new Error(`Readonly dirs are not supported: ${host}`)
  for (const [namespace, members] of Object.entries(functions))
    for (const [name, run] of Object.entries(members ?? {}))
      if (typeof run !== 'function')
        throw new TypeError(`host function "${namespace}" "${name}" is not a function`)
}

export { createPlugin as default, createPlugin as newPlugin }

/** `require()` returns the function, as for the SDK: also of `extism.cjs`. */
const required = Object.assign(createPlugin.bind(undefined), {
  CAPABILITIES,
  createPlugin,
  newPlugin: createPlugin,
  default: createPlugin,
})

export { required as 'module.exports' }
