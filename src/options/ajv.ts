import { _, Ajv, type KeywordCxt, str, stringify, type ValidateFunction } from 'ajv'
import { hostProblem } from '../plugin/source/allowed-hosts.ts'
import { sha256 } from '../plugin/source/digest.ts'

/**
 * Creates a compiler of schemas that knows our own keywords.
 *
 * @param useDefaults - Whether a check fills in defaults.
 */
export function openAjv(useDefaults: boolean): Ajv {
  const ajv = new Ajv({
    allErrors: true,
    useDefaults,
    verbose: true, // an error carries its schema: suggestions are read from there
    code: { source: true, esm: true },
  })
  ajv.addKeyword({
    keyword: 'pluginSource',
    error: { message: 'must be a path or URL, bytes, or a manifest' },
    code: isTextOrObject,
  })
  ajv.addKeyword({
    keyword: 'hostFunctions',
    error: { message: 'must be the path of a module or an object of functions' },
    code: isTextOrObject,
  })
  ajv.addKeyword({
    keyword: 'callHook',
    error: { message: 'must be a function' },
    code: (cxt) => cxt.fail(_`typeof ${cxt.data} != "function"`),
  })
  ajv.addKeyword({
    keyword: 'threadCount',
    error: { message: 'must be a whole number from 0 to 256, or auto' },
    code: isThreadCount,
  })
  ajv.addKeyword({
    keyword: 'allowedHost',
    type: 'string',
    error: { message: ({ params: { problem } }) => _`${problem}` },
    code: isAllowedHost,
  })
  ajv.addKeyword({
    keyword: 'nameOrContract',
    schemaType: 'array',
    error: { message: ({ schema }) => str`must be one of ${schema.join(', ')}, or a contract` },
    code: isNameOrContract,
  })
  ajv.addKeyword('hint') // the message for a text that its `pattern` rejects
  ajv.addKeyword('holds')
  ajv.addKeyword('unit')
  ajv.addKeyword('secret')
  return ajv
}

/** What a check is made of: JSON Schema. */
interface CheckedSchema {
  readonly type?: unknown
  readonly properties?: unknown
  readonly default?: unknown
}

/**
 * Compiles a schema. Each object in it becomes a function of its own, shared by equal ones: V8 compiles only those that
 * run, which are few of the thousands of lines.
 *
 * @param id - The name of the function in the code that the build generates.
 */
export function compileCheck<Options>(
  ajv: Ajv,
  id: string,
  schema: CheckedSchema,
): ValidateFunction<Options> {
  return ajv.compile<Options>({ ...withParts(ajv, schema), $id: id })
}

const SCHEMAS = ['items', 'additionalProperties']
const MAPS_OF_SCHEMAS = ['properties', 'patternProperties']
const LISTS_OF_SCHEMAS = ['anyOf', 'allOf', 'oneOf']

function withParts(ajv: Ajv, schema: CheckedSchema): object {
  const each = ([keyword, value]: [string, unknown]): [string, unknown] => {
    if (typeof value !== 'object' || value === null) return [keyword, value]
    if (SCHEMAS.includes(keyword)) return [keyword, asPart(ajv, value as CheckedSchema)]
    if (LISTS_OF_SCHEMAS.includes(keyword))
      return [keyword, (value as readonly CheckedSchema[]).map((one) => asPart(ajv, one))]
    if (!MAPS_OF_SCHEMAS.includes(keyword)) return [keyword, value]
    const parts = Object.entries(value as Readonly<Record<string, CheckedSchema>>)
    return [keyword, Object.fromEntries(parts.map(([name, one]) => [name, asPart(ajv, one)]))]
  }
  return Object.fromEntries(Object.entries(schema).map(each))
}

/** A reference to an object's schema. Defaults are only read beside a reference. */
function asPart(ajv: Ajv, schema: CheckedSchema): object {
  const whole = withParts(ajv, schema)
  if (schema.type !== 'object' || schema.properties === undefined) return whole
  const id = `part-${sha256(JSON.stringify(whole))}`
  if (!ajv.getSchema(id)) ajv.addSchema({ ...whole, $id: id })
  return { $ref: id, ...('default' in schema && { default: schema.default }) }
}

function isThreadCount(cxt: KeywordCxt): void {
  const { data } = cxt
  cxt.fail(_`!(${data} === "auto" || (Number.isInteger(${data}) && ${data} >= 0 && ${data} <= 256))`)
}

function isAllowedHost(cxt: KeywordCxt): void {
  // The build imports this function by its name.
  const check = cxt.gen.scopeValue('func', { ref: hostProblem, code: _`hostProblem` })
  const problem = cxt.gen.const('problem', _`${check}(${cxt.data})`)
  cxt.setParams({ problem })
  cxt.fail(_`${problem} !== undefined`)
}

function isNameOrContract(cxt: KeywordCxt): void {
  const { data, schema } = cxt
  const isName = _`${stringify(schema)}.includes(${data})`
  const isObject = _`typeof ${data} == "object" && ${data} !== null && typeof ${data}.name == "string"`
  const isContract = _`${isObject} && typeof ${data}.input == "function" && typeof ${data}.answer == "function"`
  cxt.fail(_`!(${isName} || ${isContract})`)
}

/** The contents of such an object are checked by their users. */
function isTextOrObject(cxt: KeywordCxt): void {
  const { data } = cxt
  cxt.fail(_`!(typeof ${data} == "string" ? ${data} !== "" : typeof ${data} == "object" && ${data} !== null)`)
}
