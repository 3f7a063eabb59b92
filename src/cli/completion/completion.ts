import { UsageError } from '../../errors/errors.ts'
import { PARSED_FLAGS } from '../../options/config.ts'
import { flags } from '../../options/flags.ts'
import { didYouMean } from '../../platform/text.ts'
import { BENCH_FLAGS } from '../bench/bench.ts'
import { BUILD_FLAGS } from '../build.ts'
import { CACHE_ACTIONS, CACHE_FLAGS } from '../cache.ts'
import { CALL_FLAGS } from '../call.ts'
import { type Command, type OwnFlag, renderPage } from '../command.ts'
import { DOCTOR_FLAGS } from '../doctor/doctor.ts'
import { FLEET_ACTIONS, FLEET_FLAGS } from '../fleet/fleet.ts'
import { INSPECT_FLAGS } from '../inspect/inspect.ts'
import { INIT_FLAGS } from '../new/init.ts'
import { LANGUAGE_NAMES } from '../new/languages.ts'
import { NEW_FLAGS } from '../new/new.ts'
import { PUSH_FLAGS } from '../push.ts'
import { STORE_ACTIONS, STORE_FLAGS } from '../store/store.ts'

const SHELLS = new Map<string, (words: Words) => string>([
  ['bash', renderBash],
  ['zsh', renderZsh],
  ['fish', renderFish],
])

const HELP = renderPage({
  usage: 'wasm-serve completion bash|zsh|fish',
  about:
    'Prints a script for the completion of commands, flags, values, plug-ins and\nfunction names. Add the line for your shell to its startup file.',
  examples: [
    'source <(wasm-serve completion bash)   # ~/.bashrc',
    'source <(wasm-serve completion zsh)    # ~/.zshrc, after compinit',
    'wasm-serve completion fish | source    # ~/.config/fish/config.fish',
  ],
  flags: { help: { kind: 'switch', short: 'h', description: 'Show this page.' } },
})

/** Prints a shell's completion script. */
export const completion: Command = {
  async run(argv, { out, commands }) {
    if (argv.includes('--help') || argv.includes('-h')) return out.write(HELP)
    const [shell = '', ...more] = argv
    const render = SHELLS.get(shell)
    if (!render || more.length > 0) {
      throw new UsageError(`completion: name one shell, bash, zsh or fish${didYouMean(shell, SHELLS.keys())}`)
    }
    out.write(render(completionWords(Object.keys(commands))))
  },
}

/** Renders the script for bash 4 or later. It needs no other package, not even `bash-completion`. */
function renderBash({
  commands,
  languages,
  storeActions,
  cacheActions,
  fleetActions,
  flags,
  choices,
  paths,
  texts,
}: Words): string {
  const cases = choices.map(
    ([flag, values]) => `    ${flag}) COMPREPLY=($(compgen -W '${values.join(' ')}' -- "$cur")); return ;;`,
  )
  return `# Completion of wasm-serve for bash: source <(wasm-serve completion bash)
_wasm_serve() {
  local IFS=$' \\t\\n' cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} word skip= plugin= number=0 i
  COMPREPLY=()
  # bash takes --flag=value apart: three words.
  if [[ $cur == = ]]; then cur=
  elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  case $prev in
${cases.join('\n')}
    ${paths.join('|')}) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    ${texts.join('|')}) return ;;
  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W '${flags.join(' ')}' -- "$cur"))
    return
  fi
  # The words before this one that are neither flags nor their values.
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if [[ -n $skip ]]; then skip=; continue; fi
    case $word in
      ${[...choices.map(([flag]) => flag), ...paths, ...texts].join('|')}) skip=1 ;;
      -*|=) ;;
      ${commands.join('|')}) if ((i > 1)); then plugin=\${plugin:-$word}; ((number++)); fi ;;
      *) plugin=\${plugin:-$word}; ((number++)) ;;
    esac
  done
  case \${COMP_WORDS[1]} in
    completion) ((COMP_CWORD == 2)) && COMPREPLY=($(compgen -W 'bash zsh fish' -- "$cur")); return ;;
    new) ((COMP_CWORD == 2)) && COMPREPLY=($(compgen -W '${languages.join(' ')}' -- "$cur")); return ;;
    store) ((COMP_CWORD == 2)) && COMPREPLY=($(compgen -W '${storeActions.join(' ')}' -- "$cur")); return ;;
    cache) ((COMP_CWORD == 2)) && COMPREPLY=($(compgen -W '${cacheActions.join(' ')}' -- "$cur")); return ;;
    fleet) ((COMP_CWORD == 2)) && COMPREPLY=($(compgen -W '${fleetActions.join(' ')}' -- "$cur")); return ;;
    help) ((COMP_CWORD == 2)) && COMPREPLY=($(compgen -W '${commands.join(' ')} flags' -- "$cur")); return ;;
  esac
  if ((number == 1)); then
    # Not by compgen: it would run what stands in a name, and the plug-in chose the names.
    while IFS= read -r word; do
      [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done < <("\${COMP_WORDS[0]}" inspect --names "$plugin" 2>/dev/null)
    return
  fi
  ((number > 1)) && return
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -d -- "$cur"; compgen -f -X '!*.wasm' -- "$cur"; compgen -f -X '!*.json' -- "$cur")
  ((COMP_CWORD == 1)) && COMPREPLY+=($(compgen -W '${commands.join(' ')}' -- "$cur"))
}
complete -F _wasm_serve wasm-serve
`
}

/** Renders the script for fish. */
function renderFish({
  commands,
  languages,
  storeActions,
  cacheActions,
  fleetActions,
  flags,
  choices,
  paths,
  texts,
}: Words): string {
  const valued = new Map<string, string>([
    ...choices.map(([flag, values]) => [flag, `-x -a '${values.join(' ')}'`] as const),
    ...paths.map((flag) => [flag, '-r -F'] as const),
    ...texts.map((flag) => [flag, '-x'] as const),
  ])
  const names = [...flags, ...valued.keys()].filter((flag, index, all) => all.indexOf(flag) === index)
  const lines = names.map((flag) => {
    const name = flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`
    return `complete -c wasm-serve ${name} ${valued.get(flag) ?? ''}`.trimEnd()
  })
  return `# Completion of wasm-serve for fish: wasm-serve completion fish | source
# The words before this one that are neither flags nor a command.
function __wasm_serve_words
  set -l words
  set -l skip
  for word in (commandline -opc)[2..-1]
    if test -n "$skip"
      set skip
    else if contains -- $word ${[...valued.keys()].join(' ')}
      set skip 1
    else if not string match -q -- '-*' $word
      set -a words $word
    end
  end
  contains -- "$words[1]" ${commands.join(' ')}; and set -e words[1]
  for word in $words
    echo $word
  end
end
function __wasm_serve_first
  test (count (commandline -opc)) -eq 1
end
function __wasm_serve_after
  set -l words (commandline -opc)
  test (count $words) -eq 2; and test "$words[2]" = $argv[1]
end
function __wasm_serve_names
  set -l words (__wasm_serve_words)
  set -l program (commandline -opc)[1]
  test (count $words) -eq 1; and $program inspect --names $words[1] 2>/dev/null
end
function __wasm_serve_plugins
  test (count (__wasm_serve_words)) -eq 0; and __fish_complete_suffix .wasm
end
complete -c wasm-serve -f
complete -c wasm-serve -n __wasm_serve_first -a '${commands.join(' ')}'
complete -c wasm-serve -n '__wasm_serve_after completion' -a 'bash zsh fish'
complete -c wasm-serve -n '__wasm_serve_after new' -a '${languages.join(' ')}'
complete -c wasm-serve -n '__wasm_serve_after store' -a '${storeActions.join(' ')}'
complete -c wasm-serve -n '__wasm_serve_after cache' -a '${cacheActions.join(' ')}'
complete -c wasm-serve -n '__wasm_serve_after fleet' -a '${fleetActions.join(' ')}'
complete -c wasm-serve -n '__wasm_serve_after help' -a '${commands.join(' ')} flags'
complete -c wasm-serve -n 'not contains -- (commandline -opc)[2] completion new store cache fleet help' -a '(__wasm_serve_plugins) (__wasm_serve_names)'
${lines.join('\n')}
`
}

/** Renders the script for zsh. It needs `compinit`. */
function renderZsh({
  commands,
  languages,
  storeActions,
  cacheActions,
  fleetActions,
  flags,
  choices,
  paths,
  texts,
}: Words): string {
  const cases = choices.map(([flag, values]) => `    ${flag}) compadd -- ${values.join(' ')}; return ;;`)
  return `#compdef wasm-serve
# Completion of wasm-serve for zsh: source <(wasm-serve completion zsh)
_wasm_serve() {
  local cur=\${words[CURRENT]} prev=\${words[CURRENT-1]} word skip= plugin= number=0 i
  case $prev in
${cases.join('\n')}
    ${paths.join('|')}) _files; return ;;
    ${texts.join('|')}) return ;;
  esac
  if [[ $cur == -* ]]; then
    compadd -- ${flags.join(' ')}
    return
  fi
  # The words before this one that are neither flags nor their values.
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
    if [[ -n $skip ]]; then skip=; continue; fi
    case $word in
      ${[...choices.map(([flag]) => flag), ...paths, ...texts].join('|')}) skip=1 ;;
      -*) ;;
      ${commands.join('|')}) if ((i > 2)); then plugin=\${plugin:-$word}; ((number++)); fi ;;
      *) plugin=\${plugin:-$word}; ((number++)) ;;
    esac
  done
  case \${words[2]} in
    completion) ((CURRENT == 3)) && compadd -- bash zsh fish; return ;;
    new) ((CURRENT == 3)) && compadd -- ${languages.join(' ')}; return ;;
    store) ((CURRENT == 3)) && compadd -- ${storeActions.join(' ')}; return ;;
    cache) ((CURRENT == 3)) && compadd -- ${cacheActions.join(' ')}; return ;;
    fleet) ((CURRENT == 3)) && compadd -- ${fleetActions.join(' ')}; return ;;
    help) ((CURRENT == 3)) && compadd -- ${commands.join(' ')} flags; return ;;
  esac
  if ((number == 1)); then
    compadd -- \${(f)"$("\${words[1]}" inspect --names "$plugin" 2>/dev/null)"}
    return
  fi
  ((number > 1)) && return
  ((CURRENT == 2)) && compadd -- ${commands.join(' ')}
  _files -g '*.(wasm|json)'
}
compdef _wasm_serve wasm-serve
`
}

/** The words to complete, from the tables of flags and commands. */
interface Words {
  readonly commands: readonly string[]
  /** Languages of `new`. */
  readonly languages: readonly string[]
  /** Actions of `store`. */
  readonly storeActions: readonly string[]
  /** Actions of `cache`. */
  readonly cacheActions: readonly string[]
  /** Actions of `fleet`. */
  readonly fleetActions: readonly string[]
  /** Flags with their dashes. */
  readonly flags: readonly string[]
  /** Flags with an enumerated value. */
  readonly choices: readonly (readonly [flag: string, values: readonly string[]])[]
  /** Flags whose value is, or ends in, a path. */
  readonly paths: readonly string[]
  /** Flags whose values have no completion. */
  readonly texts: readonly string[]
}

/** Flags of a single command. */
const OWN_FLAGS: readonly (readonly [name: string, flag: OwnFlag])[] = [
  ...Object.entries(INSPECT_FLAGS),
  ...Object.entries(CALL_FLAGS),
  ...Object.entries(BENCH_FLAGS),
  ...Object.entries(STORE_FLAGS),
  ...Object.entries(CACHE_FLAGS),
  ...Object.entries(FLEET_FLAGS),
  ...Object.entries(PUSH_FLAGS),
  ...Object.entries(NEW_FLAGS),
  ...Object.entries(INIT_FLAGS),
  ...Object.entries(DOCTOR_FLAGS),
  ...Object.entries(BUILD_FLAGS),
]

/** @param commands - Names of the commands. */
export function completionWords(commands: readonly string[]): Words {
  const valued = flags.filter(({ kind }) => kind !== 'boolean')
  const names = (wanted: readonly { readonly name: string }[]) => wanted.map(({ name }) => `--${name}`)
  const negations = flags.filter(({ kind, default: value }) => kind === 'boolean' && value === true)
  const choices = valued.filter(({ values }) => values.length > 0)
  const paths = valued.filter(({ isPath }) => isPath)
  const texts = valued.filter((flag) => !choices.includes(flag) && !paths.includes(flag))
  const own = (isWanted: (flag: OwnFlag) => boolean) =>
    OWN_FLAGS.filter(([, flag]) => isWanted(flag)).flatMap(([name, { short }]) =>
      short === undefined ? [`--${name}`] : [`--${name}`, `-${short}`],
    )
  return {
    commands,
    languages: LANGUAGE_NAMES,
    storeActions: STORE_ACTIONS,
    cacheActions: CACHE_ACTIONS,
    fleetActions: FLEET_ACTIONS,
    flags: [
      ...Object.keys(PARSED_FLAGS).map((name) => `--${name}`),
      ...negations.map(({ name }) => `--no-${name}`),
      ...own(() => true).filter((name) => name.startsWith('--')),
    ].filter(isFirst),
    choices: choices.map(({ name, values }) => [`--${name}`, values]),
    paths: [
      ...names(paths),
      '--manifest',
      '-m',
      '--config-file',
      ...own(({ placeholder }) => placeholder === 'path'),
    ].filter(isFirst),
    texts: [
      ...names(texts),
      '--set-config',
      ...own(({ kind, placeholder }) => kind !== 'switch' && placeholder !== 'path'),
    ].filter(isFirst),
  }
}

function isFirst(word: string, index: number, all: readonly string[]): boolean {
  return all.indexOf(word) === index
}
