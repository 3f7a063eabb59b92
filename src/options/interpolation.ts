import type { Environment } from './config.ts'

/** A text with the values of its variables in it. */
export interface Interpolated {
  readonly text: string
  /** The variables whose values are in it: with those that are not empty, the text is a secret. */
  readonly variables: readonly string[]
  /** Why it cannot be used; none of these has a value in it. */
  readonly problems: readonly string[]
}

/**
 * Puts variables into a text: `${NAME}`, or `${NAME:-default}` where the default counts if the variable is not set or
 * empty. `$${` is the text `${`.
 */
export function interpolate(text: string, environment: Environment): Interpolated {
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
    if (fallback === undefined) problems.push(`the environment has no ${name}`)
    return fallback ?? ''
  })
  return { text: replaced, variables, problems }
}

/** Whether there is something to put into a text. */
export function hasVariables(text: string): boolean {
  return text.includes('${')
}

/** `$${`; or `${` with what makes it a variable, or without, which is a mistake. */
const VARIABLE = /(\$\$\{)|\$\{(?:([A-Za-z_]\w*)(?::-([^}]*))?\})?/g
