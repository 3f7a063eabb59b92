import { Type } from 'typebox'
import { option, withDefault } from './option.ts'

/** Options of the server: logs and traces. */
export const logOptions = {
  accessLog: option(
    { reach: 'answer', owner: 'fleet' },
    withDefault(Type.Boolean({ default: false, description: 'Log one line per request.' })),
  ),
  accessLogFormat: option(
    { reach: 'answer', owner: 'fleet' },
    withDefault(
      Type.Enum(['json', 'common', 'combined'], {
        default: 'json',
        description: 'JSON in the log, or the common or combined log format on standard output.',
      }),
    ),
  ),
  accessLogLevel: option(
    { reach: 'answer', owner: 'fleet' },
    withDefault(
      Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
        default: 'info',
        description: 'Level of access log lines, which logLevel filters.',
      }),
    ),
  ),
  accessLogHeaders: option(
    { reach: 'answer', owner: 'fleet' },
    withDefault(
      Type.Boolean({ default: false, description: 'Add the request headers to the access log. (json)' }),
    ),
  ),
  redactHeaders: option(
    { flag: false, reach: 'answer', owner: 'fleet' },
    withDefault(
      Type.Array(Type.String({ minLength: 1, public: true }), {
        default: ['authorization', 'cookie', 'proxy-authorization', 'x-api-key'],
        description: 'Headers whose values the access log hides.',
      }),
    ),
  ),
  otel: withDefault(
    Type.Boolean({
      default: false,
      description:
        'Create OpenTelemetry spans for requests and calls. `OTEL_*` variables configure the export.',
    }),
  ),
}
