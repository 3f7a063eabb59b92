import type { Ajv } from 'ajv'
import { compileCheck, openAjv } from './ajv.ts'
import { configFileSchema } from './config-file-schema.ts'

/*
 * The check of the structure of a config file. Unlike the check of options it fills in no defaults: they are the last
 * of several layers. The build replaces this module too.
 */

export const configFileAjv: Ajv = openAjv(false)

export const isConfigFile = compileCheck(configFileAjv, 'isConfigFile', configFileSchema)
