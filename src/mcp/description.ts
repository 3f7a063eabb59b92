import { ToolSchemaInvalidError } from '../errors/errors.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import { toolName } from '../options/tool-name.ts'
import type { JsonText } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import type { JsonSchema, XtpSchema, XtpValue } from '../route/openapi/xtp-schema.ts'
import { inCurrentDialect } from './dialects.ts'
import type { Members } from './json-rpc.ts'

/** How a tool is listed, and how its guest is called. */
export interface ToolDescription {
  readonly name: string
  readonly title: string | undefined
  readonly description: string
  /** Whether someone has written the description. */
  readonly isDescribed: boolean
  readonly inputSchema: Members
  readonly outputSchema: Members | undefined
  readonly annotations: Members | undefined
  readonly input: ToolInput
  /** Content type of the output. undefined: text if it is UTF-8, else bytes. */
  readonly contentType: string | undefined
}

/** The guest's input: all arguments as JSON, one of them, or nothing. */
export type ToolInput =
  | { readonly form: 'json' | 'none' }
  /** `json`: as JSON. `text`: its bytes. `base64`: the bytes that it encodes. */
  | { readonly form: 'parameter'; readonly name: string; readonly as: 'json' | 'text' | 'base64' }

/** The arguments of a call. A guest gets their own text: JavaScript's numbers would change large ones. */
export interface ToolArguments extends JsonText {
  readonly value: Members
}

/** A route, as far as its description as a tool depends on it. */
export interface DescribedRoute {
  readonly options: Pick<ResolvedRoute, 'tool' | 'url' | 'description' | 'contentType'>
  readonly functionName: string
  readonly pluginName: string
}

/**
 * Describes a route as a tool: by its options, else by the XTP schema of its plug-in, else as a tool with one text.
 *
 * @throws {@link ToolSchemaInvalidError} if the input schema is not one of an object.
 */
export function describeTool(
  { options, functionName, pluginName }: DescribedRoute,
  xtp: XtpSchema | undefined,
): ToolDescription {
  const { tool = {} } = options
  const name = toolName(options, functionName)
  const known = xtp?.exports.get(functionName)
  const input = tool.inputSchema
    ? inputOfSchema(inCurrentDialect(tool.inputSchema), tool.input, name)
    : known && xtp
      ? inputOfXtp(known.input, xtp)
      : TEXT_INPUT
  const output = known?.output
  const given = tool.description ?? options.description ?? known?.description
  return {
    name,
    title: tool.title,
    description: given ?? `The function ${functionName} of the plug-in ${pluginName}.`,
    isDescribed: given !== undefined,
    ...input,
    outputSchema: tool.outputSchema
      ? inCurrentDialect(tool.outputSchema)
      : output && xtp && isJson(output.contentType)
        ? ofXtp(output.schema, xtp)
        : undefined,
    annotations: tool.annotations,
    contentType: options.contentType ?? output?.contentType,
  }
}

type Input = Pick<ToolDescription, 'inputSchema' | 'input'>

/** The parameter of a tool without a schema of an object. */
const PARAMETER = 'input'

const TEXT_INPUT: Input = {
  inputSchema: parameterSchema({ type: 'string', description: 'Input of the function.' }),
  input: { form: 'parameter', name: PARAMETER, as: 'text' },
}

const NO_INPUT: Input = {
  inputSchema: { type: 'object', additionalProperties: false },
  input: { form: 'none' },
}

function parameterSchema(schema: Members): Members {
  return {
    type: 'object',
    properties: { [PARAMETER]: schema },
    required: [PARAMETER],
    additionalProperties: false,
  }
}

function inputOfSchema(schema: Members, form: 'json' | 'text' | undefined, name: string): Input {
  const { type = 'object', properties } = schema
  if (type !== 'object') throw new ToolSchemaInvalidError('input schema', name, 'its type must be object')
  const inputSchema = { type, ...schema }
  const [first, ...others] = isObject(properties) ? Object.entries(properties) : []
  const text =
    first && others.length === 0 && isObject(first[1]) && first[1].type === 'string' ? first[0] : undefined
  if (form === 'text' && text === undefined)
    throw new ToolSchemaInvalidError(
      'input schema',
      name,
      'for input text it must have one parameter, a string',
    )
  return text === undefined || form === 'json'
    ? { inputSchema, input: { form: 'json' } }
    : { inputSchema, input: { form: 'parameter', name: text, as: 'text' } }
}

/** An input of XTP that is no object becomes the only parameter. */
function inputOfXtp(input: XtpValue | undefined, xtp: XtpSchema): Input {
  if (!input) return NO_INPUT
  const { contentType, schema } = input
  const { type, contentEncoding } = dereference(schema, xtp)
  if (type === 'object') return { inputSchema: ofXtp(schema, xtp), input: { form: 'json' } }
  const as =
    contentEncoding === 'base64' ? 'base64' : type === 'string' && !isJson(contentType) ? 'text' : 'json'
  const { $defs, ...own } = ofXtp(schema, xtp)
  return {
    inputSchema: { ...parameterSchema(own), ...(isObject($defs) && { $defs }) },
    input: { form: 'parameter', name: PARAMETER, as },
  }
}

function isJson(contentType: string): boolean {
  return /^application\/(?:[\w.-]+\+)?json\b/i.test(contentType)
}

const XTP_SCHEMAS = '#/components/schemas/'

function dereference(schema: JsonSchema, { schemas }: XtpSchema): JsonSchema {
  const { $ref } = schema
  return $ref === undefined ? schema : (schemas.get(nameIn($ref)) ?? {})
}

function nameIn(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1)
}

/** A schema of XTP by itself: the schemas that it refers to become its `$defs`. A reference to an object is replaced by it. */
function ofXtp(schema: JsonSchema, xtp: XtpSchema): Members {
  const used = new Map<string, Members>()
  const withOwnRefs = (value: JsonSchema): Members =>
    JSON.parse(JSON.stringify(value), (key, item: unknown) => {
      if (key !== '$ref' || typeof item !== 'string') return item
      const name = nameIn(item)
      const found = item.startsWith(XTP_SCHEMAS) ? xtp.schemas.get(name) : undefined
      if (found && !used.has(name)) {
        used.set(name, {})
        used.set(name, withOwnRefs(found))
      }
      return `#/$defs/${name.replaceAll('~', '~0')}`
    })
  const own = withOwnRefs(dereference(schema, xtp).type === 'object' ? dereference(schema, xtp) : schema)
  return used.size === 0 ? own : { ...own, $defs: Object.fromEntries(used) }
}
