/** What the first word can name, in the order in which it is shown, and what it does. */
export const COMMANDS = {
  serve: 'Serve a plug-in over HTTP; this word may be left out.',
  inspect: 'Show what a plug-in exports and what it needs.',
  call: 'Call a function once, without HTTP.',
  bench: 'Measure a plug-in under load.',
  completion: 'Print a script that completes words in bash, zsh or fish.',
  help: 'Explain a command, or list the flags.',
} as const

export type CommandName = keyof typeof COMMANDS

export function isCommandName(word: string): word is CommandName {
  return Object.hasOwn(COMMANDS, word)
}
