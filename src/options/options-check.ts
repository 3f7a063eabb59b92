import type { Ajv } from 'ajv'
import { compileCheck, openAjv } from './ajv.ts'
import { loadSchema, serverSchema, wasmServeSchema } from './options-schema.ts'

/*
 * The options schemas as functions: each returns whether the options are valid, fills in defaults and leaves its errors
 * in `.errors`. The build replaces this module by the code that Ajv generates here, so that serving loads neither Ajv
 * nor TypeBox.
 */

export const optionsAjv: Ajv = openAjv(true)

export const isLoadOptions = compileCheck(optionsAjv, 'isLoadOptions', loadSchema)
export const isServerOptions = compileCheck(optionsAjv, 'isServerOptions', serverSchema)
export const isWasmServeOptions = compileCheck(optionsAjv, 'isWasmServeOptions', wasmServeSchema)
