import type { Words } from './words.ts'

/** Renders the script for bash 4 or later. Nothing but bash is needed, not even the package `bash-completion`. */
export function renderBash({
  commands,
  languages,
  storeActions,
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
