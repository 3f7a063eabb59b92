import { failure } from './failure.ts'

/* Failures of the command line, of options and of configuration. */

export const UsageError = failure({
  code: 'WASM_SERVE_USAGE_INVALID',
  site: 'command',
  isMistake: true,
  message: '%s',
  cause: 'A word, flag or variable of the command line is wrong.',
  remedy: 'Correct the word that the message names. `wasm-serve help flags` lists all flags.',
})

export const OptionsError = failure({
  code: 'WASM_SERVE_OPTIONS_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Invalid options:\n%s',
  cause: 'Options are wrong. All problems are listed, unknown options with a suggestion.',
  remedy: 'Correct each option that is listed. [Options](options.md) has their types and ranges.',
})

export const ConfigUnreadableError = failure({
  code: 'WASM_SERVE_CONFIG_UNREADABLE',
  site: 'command',
  isMistake: true,
  message: 'Cannot read config file %s: %s',
  cause: 'The config file does not exist, exists several times, is too large, or is not UTF-8.',
  remedy: 'Name one file with `-c`. It has at most 256 KiB of UTF-8.',
})

export const ConfigInvalidError = failure({
  code: 'WASM_SERVE_CONFIG_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Config file %s is not valid:\n%s',
  cause: 'The config file has errors. Each is listed with line and column.',
  remedy: 'Correct each line that is listed. `wasm-serve check` shows whether it is right.',
})

export const MountConflictError = failure({
  code: 'WASM_SERVE_MOUNT_CONFLICT',
  site: 'command',
  isMistake: true,
  message: 'Several routes have the same URL:\n%s',
  cause: 'Several plug-ins, functions or routes would have the same URL.',
  remedy: 'Change the `url`, `host` or `method` of one of them.',
})

export const PluginNameSharedError = failure({
  code: 'WASM_SERVE_PLUGIN_NAME_SHARED',
  site: 'command',
  isMistake: true,
  message:
    'Two different plug-ins have the name "%s", of %s and of %s: give each a name under "plugins" of a config file, or by loadPlugin',
  cause:
    'Two different plug-ins have the same [name](../guide/plug-ins.md#names), by which state, logs and metrics are kept.',
  remedy:
    'Give each a name under `plugins` of a config file. In a program, load one by `loadPlugin(source, { name })`.',
})

export const CheckFailedError = failure({
  code: 'WASM_SERVE_CHECK_FAILED',
  site: 'command',
  isMistake: true,
  message: '%s',
  isWhole: true,
  cause: '`wasm-serve check` found problems, or the server has several reasons not to start.',
  remedy: 'Correct each problem that is listed.',
})

export const ProjectNotMadeError = failure({
  code: 'WASM_SERVE_PROJECT_NOT_MADE',
  site: 'command',
  isMistake: true,
  message: 'No project was created in %s: %s',
  cause:
    'The folder for `wasm-serve new` has files, or that for `wasm-serve init` has a config file, or it cannot be written.',
  remedy:
    '`new`: name an empty folder, or one that does not exist, below a folder that you can write. `init`: edit the config file.',
})

export const InputUnreadableError = failure({
  code: 'WASM_SERVE_INPUT_UNREADABLE',
  site: 'command',
  isMistake: true,
  message: 'Cannot read the input %s: %s',
  cause: '`call` and `bench`: the file of the input cannot be read.',
  remedy: 'Name a file that you can read.',
})

export const OutputUnwritableError = failure({
  code: 'WASM_SERVE_OUTPUT_UNWRITABLE',
  site: 'command',
  message: 'Cannot write %s: %s',
  cause: 'The file for the result of a command cannot be written.',
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
  cause: '`bench`: the server did not start, or does not answer this input with 200.',
  remedy: 'Try the same plug-in and input with `wasm-serve call`.',
})

export const BenchAnswersError = failure({
  code: 'WASM_SERVE_BENCH_ANSWERS_WRONG',
  site: 'command',
  message: 'Not all answers were correct: %s',
  cause: '`bench`: under load, answers were wrong, failed or did not come.',
  remedy:
    'Read the report: it counts the wrong answers. A guest that depends on time or chance answers differently.',
})
