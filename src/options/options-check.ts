import type { Ajv } from 'ajv'
import { openAjv } from './ajv.ts'
import { loadSchema, serverSchema, wasmServeSchema } from './options-schema.ts'

/*
 * The options schemas as functions: each returns whether the options are right, fills in defaults and leaves its
 * findings in `.errors`. The build replaces this module by the code that Ajv makes here, so that neither Ajv nor
 * TypeBox is loaded to serve.
 */

export const optionsAjv: Ajv = openAjv(true)

export const isLoadOptions = optionsAjv.compile({ ...loadSchema, $id: 'isLoadOptions' })
export const isServerOptions = optionsAjv.compile({ ...serverSchema, $id: 'isServerOptions' })
export const isWasmServeOptions = optionsAjv.compile({ ...wasmServeSchema, $id: 'isWasmServeOptions' })
