import type { Environment } from './config.ts'
import { readJsonText } from './config-json.ts'
import type { ConfigText } from './config-reader.ts'

/** The languages of config files. */
export type ConfigFormat = 'json' | 'yaml'

/**
 * Parses JSON (RFC 8259) or YAML 1.2 (its core schema) into values with their positions. Keys at the top that begin with `x-` are
 * left out: anchors of YAML are put there.
 *
 * Rejected in both: duplicate keys, keys of every object, more values or levels than any configuration has, and numbers
 * that JavaScript cannot represent.
 *
 * @param file - Its path as shown to people.
 */
export async function readConfigText(text: string, format: ConfigFormat, file: string): Promise<ConfigText> {
  if (format === 'json') return readJsonText(text, file)
  const { readYamlText } = await import('./config-yaml.ts') // the parser is loaded only for YAML: that takes a tenth of a start
  return readYamlText(text, file)
}

/** A text after the substitution of its variables. */
interface Interpolation {
  readonly text: string
  /** The substituted variables. If one of them is not empty, the text is a secret. */
  readonly variables: readonly string[]
  /** Reasons why it cannot be used; they contain no values. */
  readonly problems: readonly string[]
}

/**
 * Substitutes variables in a text: `${NAME}`, or `${NAME:-default}` whose default is used if the variable is unset or
 * empty. `$${` is the text `${`.
 */
export function interpolate(text: string, environment: Environment): Interpolation {
  const variables: string[] = []
  const problems: string[] = []
  const replaced = text.replaceAll(VARIABLE, (_found, escaped, name, fallback) => {
    if (escaped !== undefined) return '${'
    if (name === undefined) {
      problems.push(`a variable is \${NAME} or \${NAME:-default}; for the text "\${" write "$\${"`)
      return ''
    }
    const value = Object.hasOwn(environment, name) ? environment[name] : undefined
    if (value !== undefined && (value !== '' || fallback === undefined)) {
      variables.push(name)
      return value
    }
    if (fallback === undefined) problems.push(`the environment variable ${name} is not set`)
    return fallback ?? ''
  })
  return { text: replaced, variables, problems }
}

/** The variables that a text names. */
export function variablesIn(text: string): readonly string[] {
  return [...text.matchAll(VARIABLE)].flatMap(([, , name]) => name ?? [])
}

/** Whether a text contains a variable or an escape. */
export function hasVariables(text: string): boolean {
  return text.includes('${')
}

/** `$${`; or `${` followed by a valid variable, or by anything else, which is an error. A default has no `${`. */
const VARIABLE = /(\$\$\{)|\$\{(?:([A-Za-z_]\w*)(?::-((?:[^}$]|\$+[^{}$])*\$*))?\})?/g
