import { isAbsolute } from 'node:path'
import { isHostNamespace } from '../plugin/host-imports.ts'
import { hostProblem } from '../plugin/source/allowed-hosts.ts'
import type { AllowedPath, ManifestSettings } from '../plugin/source/manifest.ts'
import type { Companions } from '../plugin/source/origin.ts'
import { type Edits, forbiddenOption, type PluginVersions, type RouteEdit, type Version } from './edits.ts'
import {
  expect,
  JsonProblem,
  optional,
  readArray,
  readBoolean,
  readDigest,
  readObject,
  readTextField,
  wholeNumber,
} from './json-fields.ts'

/** Incremented when a change makes the format unreadable for older versions. */
const STATE_FORMAT = 1

/** The stored form of edits. */
export function renderState({ plugins, routes }: Edits): string {
  const state = {
    format: STATE_FORMAT,
    plugins: [...plugins].map(([name, plugin]) => ({ name, ...plugin })),
    routes: [...routes].map(([id, route]) => ({ id, ...route })),
  }
  return `${JSON.stringify(state, null, 2)}\n`
}

/**
 * Parses the output of {@link renderState}, or a hand-edited file, which may contain no more than the admin API allows.
 * Whether a version of the configuration opens additional folders is checked when it is used.
 *
 * @returns the first problem, with the member's path, if there is one.
 */
export function parseState(text: string): Edits | { readonly problem: string } {
  try {
    const state = readObject(JSON.parse(text), 'it')
    expect(state.format === STATE_FORMAT, `its format is not ${STATE_FORMAT}, which this version reads`)
    return {
      plugins: new Map(readArray(state.plugins, 'plugins').map(readPlugin)),
      routes: new Map(readArray(state.routes, 'routes').map(readRoute)),
    }
  } catch (error) {
    if (error instanceof JsonProblem || error instanceof SyntaxError) return { problem: error.message }
    throw error
  }
}

function readRoute([item, where]: readonly [unknown, string]): [string, RouteEdit] {
  const route = readObject(item, where)
  const options = optional(route.options, `${where}.options`, readObject)
  if (options) {
    const forbidden = forbiddenOption(options)
    expect(
      forbidden === undefined,
      `${where}.options.${forbidden} can be set only in the configuration: remove it from this file`,
    )
    expect(typeof options.plugin === 'string', `${where}.options.plugin is not a name`)
    optional(options.contract, `${where}.options.contract`, readTextField)
  }
  return [readTextField(route.id, `${where}.id`), { options }]
}

function readPlugin([item, where]: readonly [unknown, string]): [string, PluginVersions] {
  const { name, added, versions, traffic, over } = readObject(item, where)
  const read = readArray(versions, `${where}.versions`).map(readVersion)
  const shares = readArray(traffic, `${where}.traffic`).map(([share, at]) => {
    const { digest: of, percent } = readObject(share, at)
    expect(
      read.some((version) => version.digest === of),
      `${at}.digest names a missing version`,
    )
    return { digest: readDigest(of, `${at}.digest`), percent: wholeNumber(percent, `${at}.percent`, 1, 100) }
  })
  expect(shares.length <= 2, `${where}.traffic has more than two versions`)
  return [
    readTextField(name, `${where}.name`),
    {
      added: readBoolean(added, `${where}.added`),
      versions: read,
      traffic: shares,
      over: optional(over, `${where}.over`, readDigest),
    },
  ]
}

/** @throws `JsonProblem` */
export function readVersion([item, where]: readonly [unknown, string]): Version {
  const version = readObject(item, where)
  const from = ORIGINS.find((origin) => origin === version.from)
  expect(from !== undefined, `${where}.from is not one of ${ORIGINS.join(', ')}`)
  const modules = readArray(version.modules, `${where}.modules`).map(([module, at]) => {
    const { name, digest: of, bytes, place, bundle, signer, attestations } = readObject(module, at)
    expect(!isHostNamespace(readTextField(name, `${at}.name`)), `${at}.name is reserved for the host`)
    return {
      name: readTextField(name, `${at}.name`),
      digest: readDigest(of, `${at}.digest`),
      bytes: wholeNumber(bytes, `${at}.bytes`),
      place: optional(place, `${at}.place`, readTextField),
      bundle: optional(bundle, `${at}.bundle`, readDigest),
      signer: optional(signer, `${at}.signer`, readTextField),
      attestations: optional(attestations, `${at}.attestations`, (types, where) =>
        readArray(types, where).map(([type, each]) => readTextField(type, each)),
      ),
    }
  })
  const names = new Set(modules.map(({ name }) => name))
  expect(
    names.has('main') && names.size === modules.length,
    `${where}.modules must be one main module and others with unique names`,
  )
  const settings = optional(version.settings, `${where}.settings`, readSettings)
  if (settings && from !== 'file') {
    const at = `${where}.settings`
    expect(settings.isRemote, `${at}.isRemote is not true, as required for content from the network`)
    expect(settings.allowedPaths.length === 0, `${at}.allowedPaths can be set only in the configuration`)
  }
  return {
    digest: readDigest(version.digest, `${where}.digest`),
    name: readTextField(version.name, `${where}.name`),
    from,
    addedAt: readTextField(version.addedAt, `${where}.addedAt`),
    modules,
    settings,
    companions: optional(version.companions, `${where}.companions`, readCompanions),
  }
}

function readCompanions(value: unknown, where: string): Companions {
  const { xtpSchema, smoke } = readObject(value, where)
  return {
    xtpSchema: optional(xtpSchema, `${where}.xtpSchema`, readTextField),
    smoke: optional(smoke, `${where}.smoke`, readTextField),
  }
}

const ORIGINS = ['file', 'url', 'upload'] as const

function readSettings(value: unknown, where: string): ManifestSettings {
  const { isRemote, memory, timeoutMs, config, allowedHosts, allowedPaths } = readObject(value, where)
  const { maxPages, maxHttpResponseBytes, maxVarBytes } = readObject(memory, `${where}.memory`)
  return {
    isRemote: readBoolean(isRemote, `${where}.isRemote`),
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
      Object.entries(readObject(config, `${where}.config`)).map(([key, item]) => [
        key,
        readTextField(item, `${where}.config.${key}`),
      ]),
    ),
    allowedHosts: optional(allowedHosts, `${where}.allowedHosts`, (hosts, at) =>
      readArray(hosts, at).map(readHost),
    ),
    allowedPaths: readArray(allowedPaths, `${where}.allowedPaths`).map(allowedPathField),
  }
}

function readHost([item, where]: readonly [unknown, string]): string {
  const host = readTextField(item, where)
  expect(hostProblem(host) === undefined, `${where} is not a host`)
  return host
}

function allowedPathField([item, where]: readonly [unknown, string]): AllowedPath {
  const { host, guest, readOnly } = readObject(item, where)
  expect(isAbsolute(readTextField(host, `${where}.host`)), `${where}.host is not an absolute path`)
  return {
    host: readTextField(host, `${where}.host`),
    guest: readTextField(guest, `${where}.guest`),
    readOnly: readBoolean(readOnly, `${where}.readOnly`),
  }
}
