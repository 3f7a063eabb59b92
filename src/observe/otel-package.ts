import { loadPackage } from '../platform/optional-package.ts'

/** In one line: one after the other, npm takes the newest API, which the SDK may not be ready for (ERESOLVE). */
const ALL = '@opentelemetry/api @opentelemetry/sdk-node @fastify/otel'

/**
 * Loads one of OpenTelemetry's packages.
 *
 * @throws {@link PackageMissingError} with the line that installs all of them.
 */
export function loadOtelPackage<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  return loadPackage('the option otel', name, load, ALL)
}
