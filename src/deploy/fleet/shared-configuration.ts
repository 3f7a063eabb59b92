import { resolve } from 'node:path'
import type { Secrets } from '../../observe/log/secrets.ts'
import type { Environment } from '../../options/config.ts'
import {
  type ConfigEntry,
  type ConfigMap,
  type ConfigNode,
  type ConfigScalar,
  type ConfigTemplate,
  mapOf,
  type Origin,
  scalarsIn,
} from '../../options/config-node.ts'
import { interpolate, variablesIn } from '../../options/config-text.ts'
import { optionsWhere } from '../../options/facts.ts'
import { parseValue } from '../../options/flags.ts'
import { isUrl } from '../../plugin/source/url.ts'
import type { Configuration, DesiredRoute } from '../desired-state.ts'
import {
  expect,
  JsonProblem,
  optional,
  readArray,
  readBoolean,
  readObject,
  readTextField,
} from '../json-fields.ts'
import { readVersion } from '../state-json.ts'

/** Incremented when a change makes the format unreadable for older versions. */
const FORMAT = 1

/** The part of a configuration that all nodes of a fleet share. */
export type SharedConfiguration = Omit<Configuration, 'load' | 'checked' | 'problem'>

/** The environment in which a shared configuration is read. */
export interface SharedContext {
  readonly environment: Environment
  /** The variables that it may use: a text with others stays as it is. */
  readonly variables: readonly string[]
  /** Receives the values of variables. */
  readonly secrets: Pick<Secrets, 'add'>
}

/**
 * Options of the server that nodes share: who may call, and what is logged. All others stay with each node: they open sockets,
 * files or processes, or protect the node from guests.
 */
export const SHARED_OPTIONS = optionsWhere('server', ({ owner }) => owner === 'fleet')

/** The options of a server that nodes share. */
export function sharedOptions({ entries, ...server }: ConfigMap): ConfigMap {
  return { ...server, entries: new Map([...entries].filter(([name]) => SHARED_OPTIONS.has(name))) }
}

/**
 * Renders the shared part of a configuration as JSON. Texts with variables are written as they were in the config file,
 * without the values.
 */
export function renderShared({ file, server, defaults, routes, warnings }: SharedConfiguration): string {
  const origins = new Origins()
  const node = (configured: ConfigNode) => renderNode(configured, origins)
  const data = {
    format: FORMAT,
    file,
    server: node(sharedOptions(server)),
    defaults: {
      route: node(defaults.route),
      plugins: [...defaults.plugins].map(([name, plugin]) => [name, node(plugin)]),
    },
    routes: routes.map(({ configured, name, from, version }) => ({
      given: node(configured),
      name,
      from,
      version,
    })),
    warnings,
  }
  return JSON.stringify({ ...data, origins: origins.all })
}

/**
 * Reads the output of {@link renderShared}. Variables get the values of this environment.
 *
 * @param context - undefined: for people, texts with variables stay as they are.
 * @returns the first problem, with the member's path or the origin of the value, if there is one.
 */
export function parseShared(
  text: string,
  context: SharedContext | undefined,
): SharedConfiguration | { readonly problem: string } {
  try {
    const data = readObject(JSON.parse(text), 'it')
    expect(data.format === FORMAT, `its format is not ${FORMAT}, which this version reads`)
    const origins = readArray(data.origins, 'origins').map(readOrigin)
    const reader = new NodeReader(origins, context)
    const defaults = readObject(data.defaults, 'defaults')
    return {
      file: optional(data.file, 'file', readTextField),
      server: reader.map(data.server, 'server'),
      defaults: {
        route: reader.map(defaults.route, 'defaults.route'),
        plugins: new Map(
          readArray(defaults.plugins, 'defaults.plugins').map(([item, where]) => {
            const [name, plugin] = readArray(item, where)
            return [readTextField(name?.[0], `${where}[0]`), reader.map(plugin?.[0], `${where}[1]`)]
          }),
        ),
      },
      routes: readArray(data.routes, 'routes').map(([item, where]): DesiredRoute => {
        const { given, name, from, version } = readObject(item, where)
        return {
          configured: reader.map(given, `${where}.given`),
          name: readTextField(name, `${where}.name`),
          from: readTextField(from, `${where}.from`),
          version: readVersion([version, `${where}.version`]),
        }
      }),
      warnings: readArray(data.warnings, 'warnings').map(([item, where]) => readTextField(item, where)),
    }
  } catch (error) {
    if (error instanceof JsonProblem || error instanceof SyntaxError) return { problem: error.message }
    throw error
  }
}

/** The origins of secrets that a configuration has literally, instead of as variables: all nodes would store them. */
export function literalSecrets({ server, defaults, routes }: SharedConfiguration): readonly Origin[] {
  const nodes = [
    sharedOptions(server),
    defaults.route,
    ...defaults.plugins.values(),
    ...routes.map(({ configured }) => configured),
  ]
  const literal = nodes.flatMap(scalarsIn).filter(({ shown, template }) => shown !== undefined && !template)
  return [...new Map(literal.map(({ origin }) => [JSON.stringify(origin), origin])).values()]
}

/** Many values have the same origin: each is written once. */
class Origins {
  readonly all: (readonly (string | number)[])[] = []
  readonly #indices = new Map<string, number>()

  indexOf(origin: Origin): number {
    const data =
      origin.kind === 'file' ? [origin.file, origin.line, origin.column] : [origin.kind, origin.name]
    const key = JSON.stringify(data)
    const known = this.#indices.get(key)
    if (known !== undefined) return known
    this.#indices.set(key, this.all.length)
    return this.all.push(data) - 1
  }
}

function readOrigin([item, where]: readonly [unknown, string]): Origin {
  const [one, two, three] = readArray(item, where)
  const first = readTextField(one?.[0], `${where}[0]`)
  if (!three) {
    const kind = first === 'variable' ? 'variable' : 'flag'
    return { kind, name: readTextField(two?.[0], `${where}[1]`) }
  }
  const [line, column] = [Number(two?.[0]), Number(three[0])]
  expect(Number.isSafeInteger(line) && Number.isSafeInteger(column), `${where} is not a place`)
  return { kind: 'file', file: first, line, column }
}

/*
 * A node is `[origin, value]` for a scalar, `[origin, 's', value]` for one that is never shown, `[origin, 't', template]`
 * for a text with variables, `[origin, 'l', items]` for a list, and `[origin, 'm', [[key, origin of the key, node], ...]]` for a map.
 */
type RenderedNode = readonly [number, ...unknown[]]

function renderNode(node: ConfigNode, origins: Origins): RenderedNode {
  const at = origins.indexOf(node.origin)
  switch (node.kind) {
    case 'scalar':
      if (node.template) return [at, 't', node.template]
      return node.shown === undefined ? [at, node.value] : [at, 's', node.value]
    case 'list':
      return [at, 'l', node.items.map((item) => renderNode(item, origins))]
    case 'map': {
      const entries = [...node.entries].map(([key, entry]) => [
        key,
        origins.indexOf(entry.origin),
        renderNode(entry.configured, origins),
      ])
      return [at, 'm', entries]
    }
  }
}

/** Shown in place of a literal secret. */
const HIDDEN = '(secret)'

/** Deeper ones are not written by any version. */
const MAX_DEPTH = 64

class NodeReader {
  readonly #origins: readonly Origin[]
  readonly #context: SharedContext | undefined

  constructor(origins: readonly Origin[], context: SharedContext | undefined) {
    this.#origins = origins
    this.#context = context
  }

  map(value: unknown, where: string): ConfigMap {
    const node = this.#node(value, where, 0)
    expect(node.kind === 'map', `${where} is not a map`)
    return node
  }

  #node(value: unknown, where: string, depth: number): ConfigNode {
    expect(depth <= MAX_DEPTH, `${where} is nested too deeply`)
    const [first, second, third] = readArray(value, where).map(([item]) => item)
    const origin = this.#origin(first, where)
    if (third === undefined) return { kind: 'scalar', origin, value: scalar(second, where) }
    if (second === 's') return this.#hidden(scalar(third, where), origin)
    if (second === 't') return this.#filled(readTemplate(third, where), origin)
    const items = readArray(third, where)
    if (second === 'l')
      return { kind: 'list', origin, items: items.map(([item, at]) => this.#node(item, at, depth + 1)) }
    expect(second === 'm', `${where} is of no known kind`)
    const entries = items.map(([item, at]): [string, ConfigEntry] => {
      const [key, place, node] = readArray(item, at).map(([part]) => part)
      const name = readTextField(key, `${at}[0]`)
      expect(name !== '__proto__', `${at}[0] is reserved`)
      return [name, { origin: this.#origin(place, at), configured: this.#node(node, `${at}[2]`, depth + 1) }]
    })
    return { ...mapOf([], origin), entries: new Map(entries) }
  }

  #origin(index: unknown, where: string): Origin {
    const origin = this.#origins[Number(index)]
    expect(origin !== undefined, `${where} has no origin`)
    return origin
  }

  /** A secret that the config file has literally. */
  #hidden(value: ConfigScalar['value'], origin: Origin): ConfigScalar {
    this.#context?.secrets.add(String(value), HIDDEN)
    return { kind: 'scalar', origin, value, shown: HIDDEN }
  }

  #filled(template: ConfigTemplate, origin: Origin): ConfigScalar {
    const { text: shown } = template
    const { environment, secrets, variables: known = [] } = this.#context ?? {}
    const isPermitted = variablesIn(shown).every((name) => known.includes(name))
    if (!environment || !isPermitted) return { kind: 'scalar', origin, value: shown, shown, template }
    const { text, variables, problems } = interpolate(template.text, environment)
    const place = origin.kind === 'file' ? `${origin.file}:${origin.line}:${origin.column}` : origin.name
    expect(problems.length === 0, `${place}: ${problems.join(', ')}`)
    if (template.isSecret)
      for (const variable of variables) secrets?.add(environment[variable] ?? '', `\${${variable}}`)
    return { kind: 'scalar', origin, value: valueOfText(template, text, place), shown, template }
  }
}

function valueOfText({ kind, isPath, text: shown }: ConfigTemplate, text: string, place: string) {
  if (kind === 'string') return isPath && /^\.{0,2}\//.test(text) && !isUrl(text) ? resolve(text) : text
  try {
    return parseValue(kind, text, place, shown) as number | boolean | string
  } catch (error) {
    throw new JsonProblem((error as Error).message)
  }
}

function scalar(value: unknown, where: string): ConfigScalar['value'] {
  const isScalar = value === null || ['string', 'number', 'boolean'].includes(typeof value)
  expect(isScalar, `${where} is not a scalar`)
  return value as ConfigScalar['value']
}

const KINDS = ['boolean', 'integer', 'size', 'pages', 'time', 'threads', 'string'] as const

function readTemplate(value: unknown, where: string): ConfigTemplate {
  const { text, kind, isSecret, isPath } = readObject(value, where)
  const known = KINDS.find((each) => each === kind)
  expect(known !== undefined, `${where}.kind is not one of ${KINDS.join(', ')}`)
  return {
    text: readTextField(text, `${where}.text`),
    kind: known,
    isSecret: readBoolean(isSecret, `${where}.isSecret`),
    isPath: readBoolean(isPath, `${where}.isPath`),
  }
}
