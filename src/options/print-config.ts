import { type Given, type GivenPath, givenAt, originAt, renderOrigin } from './given.ts'

/** What {@link renderConfig} shows. */
interface EffectiveConfig {
  readonly file: string | undefined
  readonly given: Given
  /** After the check: defaults are filled in. */
  readonly options: object
}

/**
 * Renders the effective configuration as JSON: the options, and for each where it comes from: a flag, a variable, a
 * line of the file, or `default`. What comes from the environment is shown as `${NAME}`.
 */
export function renderConfig({ file, given, options }: EffectiveConfig): string {
  const from: Record<string, string> = {}
  const shown = show(options, [], given, from)
  return `${JSON.stringify({ file, options: shown, from }, null, 2)}\n`
}

function show(value: unknown, path: GivenPath, given: Given, from: Record<string, string>): unknown {
  const found = path.length === 0 ? given : givenAt(given, path)
  if (found?.kind !== 'scalar' && isContainer(value)) {
    if (Array.isArray(value)) return value.map((item, index) => show(item, [...path, index], given, from))
    const entries = Object.entries(value)
    if (entries.length === 0) from[renderPath(path)] = 'default'
    return Object.fromEntries(entries.map(([key, item]) => [key, show(item, [...path, key], given, from)]))
  }
  from[renderPath(path)] = found ? renderOrigin(originAt(given, path)) : 'default'
  return withoutPassword(found?.kind === 'scalar' ? (found.shown ?? found.value) : value)
}

/** Who may read a URL's password knows it from where it was given. */
function withoutPassword(value: unknown): unknown {
  if (typeof value !== 'string') return value
  return value.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, '$1(secret)@')
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** `routes[0].config["a key"]`. */
function renderPath(path: GivenPath): string {
  return path
    .map((step, index) => {
      if (typeof step === 'number') return `[${step}]`
      if (!/^[\w$-]+$/.test(step)) return `[${JSON.stringify(step)}]`
      return index === 0 ? step : `.${step}`
    })
    .join('')
}
