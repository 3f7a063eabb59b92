import { _, Ajv, type KeywordCxt, str, stringify } from 'ajv'
import { hostProblem } from '../outbound/allowed-hosts.ts'
import { loadSchema, serverSchema, wasmServeSchema } from './options-schema.ts'

/*
 * The options schemas as functions: each returns whether the options are right, fills in defaults and leaves its
 * findings in `.errors`. The build replaces this module by the code that Ajv makes here, so that neither Ajv nor
 * TypeBox is loaded to serve.
 */

// `verbose` makes a finding carry the schema that it breaks: suggestions come from there.
export const ajv: Ajv = new Ajv({
  allErrors: true,
  useDefaults: true,
  verbose: true,
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
  code: (cxt) =>
    cxt.fail(
      _`!(${cxt.data} === "auto" || (Number.isInteger(${cxt.data}) && ${cxt.data} >= 0 && ${cxt.data} <= 256))`,
    ),
})

ajv.addKeyword({
  keyword: 'allowedHost',
  type: 'string',
  error: { message: ({ params: { problem } }) => _`${problem}` },
  code(cxt) {
    // The build imports the function by this name.
    const check = cxt.gen.scopeValue('func', { ref: hostProblem, code: _`hostProblem` })
    const problem = cxt.gen.const('problem', _`${check}(${cxt.data})`)
    cxt.setParams({ problem })
    cxt.fail(_`${problem} !== undefined`)
  },
})

ajv.addKeyword({
  keyword: 'nameOrContract',
  schemaType: 'array',
  error: { message: ({ schema }) => str`must be one of ${schema.join(', ')}, or a contract` },
  code: isNameOrContract,
})

/** What is said of a text that its `pattern` refuses. */
ajv.addKeyword('hint')

function isNameOrContract(cxt: KeywordCxt): void {
  const { data, schema } = cxt
  const isName = _`${stringify(schema)}.includes(${data})`
  const isObject = _`typeof ${data} == "object" && ${data} !== null && typeof ${data}.name == "string"`
  const isContract = _`${isObject} && typeof ${data}.input == "function" && typeof ${data}.answer == "function"`
  cxt.fail(_`!(${isName} || ${isContract})`)
}

/** Of what an object holds, those who use it know more. */
function isTextOrObject(cxt: KeywordCxt): void {
  const { data } = cxt
  cxt.fail(_`!(typeof ${data} == "string" ? ${data} !== "" : typeof ${data} == "object" && ${data} !== null)`)
}

export const isLoadOptions = ajv.compile({ ...loadSchema, $id: 'isLoadOptions' })
export const isServerOptions = ajv.compile({ ...serverSchema, $id: 'isServerOptions' })
export const isWasmServeOptions = ajv.compile({ ...wasmServeSchema, $id: 'isWasmServeOptions' })
