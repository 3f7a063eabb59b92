import { onTestFinished } from 'vitest'
import type { GuestLogLevel, Log } from '../../src/observe/log/guest-log.ts'
import { checkWasmServeOptions, type RouteOptions } from '../../src/options/options.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import type { Instance, InstanceSettings, Runtime } from '../../src/runtime/runtime.ts'

/** A log that keeps its lines. */
export interface KeptLog extends Log {
  readonly lines: { readonly level: GuestLogLevel; readonly fields: object; readonly message: string }[]
}

export function keepLog(): KeptLog {
  const lines: KeptLog['lines'] = []
  const write = (level: GuestLogLevel) => (fields: object, message: string) => {
    lines.push({ level, fields, message })
  }
  return {
    lines,
    trace: write('trace'),
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
  }
}

/** The settings of instances on a route with these options. */
export function settingsOf(route: Partial<RouteOptions> = {}, log: Log = keepLog()): InstanceSettings {
  const { routes } = checkWasmServeOptions({ routes: [{ plugin: 'any.wasm', ...route }] })
  const [checked] = routes
  if (!checked) throw new Error('no route')
  const { config, env, wasi, outputLimit, blockLimit = 67_108_864, varMax = 1_048_576 } = checked
  return { config, wasi: wasi ? { env } : undefined, outputLimit, blockLimit, varMax, log }
}

/** An instance of a plug-in; closed when the test ends. */
export async function openInstance(
  runtime: Runtime,
  source: string | Uint8Array,
  route: Partial<RouteOptions> = {},
  log: Log = keepLog(),
): Promise<Instance> {
  const instance = await runtime.open(
    await loadPlugin(source, { runtime: runtime.name }),
    settingsOf(route, log),
  )
  onTestFinished(() => instance.close())
  return instance
}
