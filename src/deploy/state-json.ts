import { isAbsolute } from 'node:path'
import { isHostNamespace } from '../plugin/host-imports.ts'
import { hostProblem } from '../plugin/source/allowed-hosts.ts'
import type { AllowedPath, ManifestSettings } from '../plugin/source/manifest.ts'
import { type Edits, forbiddenOption, type PluginVersions, type RouteEdit, type Version } from './edits.ts'

/** One that is changed so that older programs cannot read it gets the next number. */
const FORMAT = 1

/** Edits as they are kept. */
export function renderState({ plugins, routes }: Edits): string {
  const state = {
    format: FORMAT,
    plugins: [...plugins].map(([name, plugin]) => ({ name, ...plugin })),
    routes: [...routes].map(([id, route]) => ({ id, ...route })),
  }
  return `${JSON.stringify(state, null, 2)}\n`
}

/**
 * Reads what {@link renderState} wrote, or another hand: it may say no more than the admin API can do. Whether a version
 * of the configuration opens folders that the configuration does not is checked when it is used.
 *
 * @returns the first problem, which names the member, if there is one.
 */
export function parseState(text: string): Edits | { readonly problem: string } {
  try {
    const state = object(JSON.parse(text), 'it')
    expect(state.format === FORMAT, `its format is not ${FORMAT}, which this version reads`)
    return {
      plugins: new Map(list(state.plugins, 'plugins').map(readPlugin)),
      routes: new Map(list(state.routes, 'routes').map(readRoute)),
    }
  } catch (error) {
    if (error instanceof Problem || error instanceof SyntaxError) return { problem: error.message }
    throw error
  }
}

/** Never leaves this module. */
class Problem extends Error {}

type Fields = Readonly<Record<string, unknown>>

function expect(isRight: boolean, problem: string): asserts isRight {
  if (!isRight) throw new Problem(problem)
}

function object(value: unknown, where: string): Fields {
  expect(typeof value === 'object' && value !== null && !Array.isArray(value), `${where} is no object`)
  return value as Fields
}

function list(value: unknown, where: string): readonly (readonly [item: unknown, where: string])[] {
  expect(Array.isArray(value), `${where} is no list`)
  return value.map((item, index) => [item, `${where}[${index}]`])
}

function text(value: unknown, where: string): string {
  expect(typeof value === 'string', `${where} is no text`)
  return value
}

/** It leads to a file. */
function digest(value: unknown, where: string): string {
  expect(typeof value === 'string' && /^[\da-f]{64}$/.test(value), `${where} is no SHA-256`)
  return value
}

function wholeNumber(value: unknown, where: string, least = 0, most = Number.MAX_SAFE_INTEGER): number {
  expect(
    Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most,
    `${where} is no whole number from ${least} to ${most}`,
  )
  return Number(value)
}

function truth(value: unknown, where: string): boolean {
  expect(typeof value === 'boolean', `${where} is neither true nor false`)
  return value
}

function optional<Value>(
  value: unknown,
  where: string,
  read: (value: unknown, where: string) => Value,
): Value | undefined {
  return value === undefined ? undefined : read(value, where)
}

function readRoute([item, where]: readonly [unknown, string]): [string, RouteEdit] {
  const route = object(item, where)
  const options = optional(route.options, `${where}.options`, object)
  if (options) {
    const forbidden = forbiddenOption(options)
    expect(
      forbidden === undefined,
      `${where}.options.${forbidden} can be set in the configuration only, so take it out of this file`,
    )
    expect(typeof options.plugin === 'string', `${where}.options.plugin is no name`)
  }
  return [text(route.id, `${where}.id`), { options }]
}

function readPlugin([item, where]: readonly [unknown, string]): [string, PluginVersions] {
  const { name, added, versions, traffic, over } = object(item, where)
  const read = list(versions, `${where}.versions`).map(readVersion)
  const shares = list(traffic, `${where}.traffic`).map(([share, at]) => {
    const { digest: of, percent } = object(share, at)
    expect(
      read.some((version) => version.digest === of),
      `${at}.digest is of a version that is missing`,
    )
    return { digest: digest(of, `${at}.digest`), percent: wholeNumber(percent, `${at}.percent`, 1, 100) }
  })
  expect(shares.length <= 2, `${where}.traffic has more than two versions`)
  return [
    text(name, `${where}.name`),
    {
      added: truth(added, `${where}.added`),
      versions: read,
      traffic: shares,
      over: optional(over, `${where}.over`, digest),
    },
  ]
}

function readVersion([item, where]: readonly [unknown, string]): Version {
  const version = object(item, where)
  const from = ORIGINS.find((origin) => origin === version.from)
  expect(from !== undefined, `${where}.from is none of ${ORIGINS.join(', ')}`)
  const modules = list(version.modules, `${where}.modules`).map(([module, at]) => {
    const { name, digest: of, bytes } = object(module, at)
    expect(!isHostNamespace(text(name, `${at}.name`)), `${at}.name is a name of the host`)
    return {
      name: text(name, `${at}.name`),
      digest: digest(of, `${at}.digest`),
      bytes: wholeNumber(bytes, `${at}.bytes`),
    }
  })
  const names = new Set(modules.map(({ name }) => name))
  expect(names.has('main') && names.size === modules.length, `${where}.modules are not one main and others`)
  const settings = optional(version.settings, `${where}.settings`, readSettings)
  if (settings && from !== 'file') {
    const at = `${where}.settings`
    expect(settings.isRemote, `${at}.isRemote is not true, as it is of what comes from the network`)
    expect(settings.allowedPaths.length === 0, `${at}.allowedPaths can be set in the configuration only`)
  }
  return {
    digest: digest(version.digest, `${where}.digest`),
    name: text(version.name, `${where}.name`),
    from,
    addedAt: text(version.addedAt, `${where}.addedAt`),
    modules,
    settings,
  }
}

const ORIGINS = ['file', 'url', 'upload'] as const

function readSettings(value: unknown, where: string): ManifestSettings {
  const { isRemote, memory, timeoutMs, config, allowedHosts, allowedPaths } = object(value, where)
  const { maxPages, maxHttpResponseBytes, maxVarBytes } = object(memory, `${where}.memory`)
  return {
    isRemote: truth(isRemote, `${where}.isRemote`),
    memory: {
      maxPages: optional(maxPages, `${where}.memory.maxPages`, (pages, at) =>
        wholeNumber(pages, at, 1, 65_536),
      ),
      maxHttpResponseBytes: optional(
        maxHttpResponseBytes,
        `${where}.memory.maxHttpResponseBytes`,
        (bytes, at) => wholeNumber(bytes, at),
      ),
      maxVarBytes: optional(maxVarBytes, `${where}.memory.maxVarBytes`, (bytes, at) =>
        wholeNumber(bytes, at),
      ),
    },
    timeoutMs: optional(timeoutMs, `${where}.timeoutMs`, (ms, at) => wholeNumber(ms, at, 0, 2_147_483_647)),
    config: Object.fromEntries(
      Object.entries(object(config, `${where}.config`)).map(([key, item]) => [
        key,
        text(item, `${where}.config.${key}`),
      ]),
    ),
    allowedHosts: optional(allowedHosts, `${where}.allowedHosts`, (hosts, at) =>
      list(hosts, at).map(readHost),
    ),
    allowedPaths: list(allowedPaths, `${where}.allowedPaths`).map(readAllowedPath),
  }
}

function readHost([item, where]: readonly [unknown, string]): string {
  const host = text(item, where)
  expect(hostProblem(host) === undefined, `${where} is no host`)
  return host
}

function readAllowedPath([item, where]: readonly [unknown, string]): AllowedPath {
  const { host, guest, readOnly } = object(item, where)
  expect(isAbsolute(text(host, `${where}.host`)), `${where}.host is no absolute path`)
  return {
    host: text(host, `${where}.host`),
    guest: text(guest, `${where}.guest`),
    readOnly: truth(readOnly, `${where}.readOnly`),
  }
}
