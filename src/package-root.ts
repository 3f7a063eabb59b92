/**
 * The folder of the package, where `package.json` and `dist` are. Sources in `src` and what is built of them are one
 * folder below it: the build puts all of its chunks into `dist` itself.
 */
export const PACKAGE_ROOT = new URL('../', import.meta.url)
