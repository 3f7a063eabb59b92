import * as nodeModule from 'node:module'
import type { ScriptFacts } from './script.ts'

/** Whether this version of Node.js can. */
export function canStripTypes(): boolean {
  return typeof Reflect.get(nodeModule, 'stripTypeScriptTypes') === 'function'
}

/**
 * Removes types from TypeScript, so that lines and columns stay.
 *
 * @returns undefined if this version of Node.js cannot, or if it is not enough: for enums, decorators; the failure, if it is not
 * TypeScript.
 */
export function withoutTypes(text: string): string | ScriptFacts | undefined {
  const strip: unknown = Reflect.get(nodeModule, 'stripTypeScriptTypes')
  if (typeof strip !== 'function' || hasDecorators(text)) return undefined
  try {
    return String(strip(text))
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error
    if (error.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') return undefined
    return { message: `SyntaxError: ${error.message}`, ...placeIn(error.stack ?? ''), missing: [] }
  }
}

/** They begin their line, as all formatters write them. */
function hasDecorators(text: string): boolean {
  return text.split('\n').some((line) => line.trimStart().startsWith('@'))
}

/** The stack begins with the number of the line, the lines up to it, and marks below. */
function placeIn(stack: string): { readonly line?: number; readonly column?: number } {
  const [first = '', ...lines] = stack.split('\n')
  const line = Number(/:(\d+)$/.exec(first)?.[1])
  const marks = lines.find((each) => /^ *\^+$/.test(each)) ?? '^'
  return line > 0 ? { line, column: marks.indexOf('^') + 1 } : {}
}
