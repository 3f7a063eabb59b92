import { failure } from './failure.ts'

/* Failures of the command line, of options and of configuration. */

export const UsageError = failure({
  code: 'WASM_SERVE_USAGE_INVALID',
  site: 'command',
  isMistake: true,
  message: '%s',
  cause: 'An argument, flag or environment variable is wrong.',
  remedy: 'Correct it. `wasm-serve help flags` lists all flags.',
})

export const OptionsError = failure({
  code: 'WASM_SERVE_OPTIONS_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Invalid options:\n%s',
  cause: 'Options are invalid.',
  remedy: 'Correct the listed [options](options.md).',
})

export const ConfigUnreadableError = failure({
  code: 'WASM_SERVE_CONFIG_UNREADABLE',
  site: 'command',
  isMistake: true,
  message: 'Cannot read config file %s: %s',
  cause: 'The config file does not exist, exists several times, is too large, or is not UTF-8.',
  remedy: 'Name one file with `-c`, of at most 256 KiB.',
})

export const ConfigInvalidError = failure({
  code: 'WASM_SERVE_CONFIG_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Config file %s is not valid:\n%s',
  cause: 'The config file has errors.',
  remedy: 'Correct the listed lines.',
})

export const MountConflictError = failure({
  code: 'WASM_SERVE_MOUNT_CONFLICT',
  site: 'command',
  isMistake: true,
  message: 'Several routes have the same URL:\n%s',
  cause: 'Several plug-ins, functions or routes have the same URL.',
  remedy: 'Change the `url`, `host` or `method` of one of them.',
})

export const PluginNameSharedError = failure({
  code: 'WASM_SERVE_PLUGIN_NAME_SHARED',
  site: 'command',
  isMistake: true,
  message:
    'Two different plug-ins have the name "%s", of %s and of %s: give each a name under "plugins" of a config file, or by loadPlugin',
  cause: 'Two plug-ins have the same [name](../serve/plug-ins.md#names).',
  remedy: 'Name them under `plugins` of a config file, or by `loadPlugin(source, { name })`.',
})

export const CheckFailedError = failure({
  code: 'WASM_SERVE_CHECK_FAILED',
  site: 'command',
  isMistake: true,
  message: '%s',
  isWhole: true,
  cause: '`wasm-serve check` found problems, or the server cannot start for several reasons.',
  remedy: 'Correct each listed problem.',
})

export const ProjectNotMadeError = failure({
  code: 'WASM_SERVE_PROJECT_NOT_MADE',
  site: 'command',
  isMistake: true,
  message: 'No project was created in %s: %s',
  cause: 'The folder has files (`new`) or a config file (`init`), or cannot be written.',
  remedy: '`new`: name an empty or new folder. `init`: edit the config file.',
})

export const BuildFailedError = failure({
  code: 'WASM_SERVE_BUILD_FAILED',
  message: 'The build failed: %s\n%s',
  cause:
    '`wasm-serve dev`: the last build of the project failed. Until a build succeeds, its routes respond with the output of the build.',
  remedy: 'Correct the source: it is built again when it changes. The last version that was built is kept.',
  status: 500,
})

export const InputUnreadableError = failure({
  code: 'WASM_SERVE_INPUT_UNREADABLE',
  site: 'command',
  isMistake: true,
  message: 'Cannot read the input %s: %s',
  cause: '`call` or `bench` cannot read the input file.',
  remedy: 'Name a file that you can read.',
})

export const OutputUnwritableError = failure({
  code: 'WASM_SERVE_OUTPUT_UNWRITABLE',
  site: 'command',
  message: 'Cannot write %s: %s',
  cause: 'A command cannot write its output file.',
  remedy: 'Name a file that you can write.',
})

export const PackageMissingError = failure({
  code: 'WASM_SERVE_PACKAGE_MISSING',
  site: 'command',
  isMistake: true,
  message: 'The package %s, which %s needs, is not installed: %s',
  cause: 'An optional package is not installed.',
  remedy: 'Install the package that the message names.',
})

export const BenchServerError = failure({
  code: 'WASM_SERVE_BENCH_SERVER_FAILED',
  site: 'command',
  message: 'The server under test (%s) cannot be measured: %s',
  cause: '`bench`: the server did not start, or its response to the input is not 200.',
  remedy: 'Try the plug-in and the input with `wasm-serve call`.',
})

export const BenchAnswersError = failure({
  code: 'WASM_SERVE_BENCH_ANSWERS_WRONG',
  site: 'command',
  message: 'Not all responses were correct: %s',
  cause: '`bench`: under load, responses were wrong, failed or missing.',
  remedy: 'Read the report. The output must not depend on time or chance.',
})
