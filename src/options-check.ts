import { _, Ajv } from 'ajv'
import { serverSchema, wasmServeSchema } from './options-schema.ts'

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
  error: { message: 'must be the path of a plug-in or its bytes' },
  code: (cxt) => {
    const { data } = cxt
    cxt.fail(_`!(typeof ${data} == "string" ? ${data} !== "" : ${data} instanceof Uint8Array)`)
  },
})

export const isServerOptions = ajv.compile({ ...serverSchema, $id: 'isServerOptions' })
export const isWasmServeOptions = ajv.compile({ ...wasmServeSchema, $id: 'isWasmServeOptions' })
