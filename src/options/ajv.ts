import { _, Ajv, type KeywordCxt, str, stringify } from 'ajv'
import { hostProblem } from '../plugin/source/allowed-hosts.ts'

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
