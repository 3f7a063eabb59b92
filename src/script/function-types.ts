import { linesOfComment, TypeReader, type TypeSchema, textOfComment } from './type-reader.ts'

/**
 * Describes the exported functions of a script by their types, or those of their JSDoc, and by their comments.
 *
 * @param text - JavaScript or TypeScript.
 * @returns an XTP schema; undefined if nothing is known, or if the script describes itself by `tools`.
 * @see {@link https://docs.xtp.dylibso.com/docs/concepts/xtp-schema}
 */
export function schemaOfScript(text: string): object | undefined {
  if (/^export[ \t]+const[ \t]+tools\b/m.test(text)) return undefined
  const found = [...text.matchAll(EXPORTED)].map((match) => {
    const at = match.index + match[0].length
    return [match[1] ?? match[2] ?? '', describeFunction(text, match.index, at)] as const
  })
  const described = found.filter(([, about]) => Object.keys(about).length > 0)
  return described.length === 0 ? undefined : { version: 'v1-draft', exports: Object.fromEntries(described) }
}

/** Functions that are exported where they are declared, up to their parameters. */
const EXPORTED =
  /^export[ \t]+(?:default[ \t]+)?(?:(?:async[ \t]+)?function[ \t*]+([\w$]+)[ \t]*\(|const[ \t]+([\w$]+)[ \t]*=[ \t]*(?:async[ \t]*)?\()/gm

interface AboutFunction {
  readonly description?: string
  readonly input?: TypeSchema & { readonly contentType: string }
}

/**
 * @param start - Where the declaration begins, behind its comment.
 * @param at - Where its parameters begin.
 */
function describeFunction(text: string, start: number, at: number): AboutFunction {
  const comment = commentBefore(text, start)
  const description = textOfComment(comment)
  const input = inputOf(new TypeReader(text, at).parameter()?.schema, paramsOf(comment))
  return {
    ...(description !== '' && { description }),
    ...(input?.type !== undefined && {
      input: { ...input, contentType: input.type === 'string' ? 'text/plain' : 'application/json' },
    }),
  }
}

function commentBefore(text: string, end: number): string {
  const before = text.slice(0, end).trimEnd()
  if (!before.endsWith('*/')) return ''
  const begin = before.lastIndexOf('/*')
  return before.slice(begin)
}

/** What JSDoc says of a parameter, or of a property of one: `@param {string} [options.name] - The name`. */
interface DocumentedParam {
  readonly path: readonly string[]
  readonly isOptional: boolean
  readonly schema: TypeSchema | undefined
  readonly description: string
}

function paramsOf(comment: string): readonly DocumentedParam[] {
  return linesOfComment(comment).flatMap((line) => {
    if (!line.startsWith('@param ')) return []
    const rest = line.slice('@param '.length).trim()
    const end = rest.startsWith('{') ? closingBrace(rest) : 0
    const documented = rest.slice(end).trim()
    const [begin = '', open = '', name = ''] = /^(\[?)([\w$.]+)/.exec(documented) ?? []
    if (name === '') return []
    const behind = open === '' ? begin.length : documented.indexOf(']') + 1
    const description = documented.slice(behind).trim().replace(/^-\s/, '').trim()
    const schema = end === 0 ? undefined : new TypeReader(rest.slice(1, end - 1), 0).type()
    return [{ path: name.split('.'), isOptional: open !== '', schema, description }]
  })
}

/** The place behind the type that a text begins with. */
function closingBrace(text: string): number {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '{') depth++
    else if (text[at] === '}' && --depth === 0) return at + 1
  }
  return text.length
}

/** The type of the first parameter: its own, or the one of JSDoc, whose descriptions it gets. */
function inputOf(
  declared: TypeSchema | undefined,
  params: readonly DocumentedParam[],
): TypeSchema | undefined {
  const whole = params.find(({ path }) => path.length === 1)
  const own = declared ?? whole?.schema
  const parts = params.filter(({ path }) => path.length === 2)
  const properties = new Map(Object.entries(own?.properties ?? {}))
  const required = [...(own?.required ?? [])]
  for (const { path, schema, description, isOptional } of parts) {
    const [, name = ''] = path
    if (declared !== undefined && !properties.has(name)) continue
    const known = properties.get(name) ?? schema ?? {}
    if (declared === undefined && !isOptional) required.push(name)
    properties.set(name, description === '' ? known : { ...known, description })
  }
  if (parts.length === 0) return own
  return { ...own, type: 'object', properties: Object.fromEntries(properties), required }
}
