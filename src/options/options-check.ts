import type { Ajv } from 'ajv'
import { openAjv } from './ajv.ts'
import { loadSchema, serverSchema, wasmServeSchema } from './options-schema.ts'

/*
 * The options schemas as functions: each returns whether the options are valid, fills in defaults and leaves its errors
 * in `.errors`. The build replaces this module by the code that Ajv generates here, so that serving loads neither Ajv
 * nor TypeBox.
 */

export const optionsAjv: Ajv = openAjv(true)

export const isLoadOptions = optionsAjv.compile({ ...loadSchema, $id: 'isLoadOptions' })
export const isServerOptions = optionsAjv.compile({ ...serverSchema, $id: 'isServerOptions' })
export const isWasmServeOptions = optionsAjv.compile({ ...wasmServeSchema, $id: 'isWasmServeOptions' })
