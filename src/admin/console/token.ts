const KEY = 'wasm-serve-token'

/**
 * The token: that of the URL's fragment, which no server sees and which is taken away at once, so that it is neither in
 * the history nor in a bookmark; else that of this tab.
 */
export function takeToken(): string | undefined {
  const [, given] = /^#token=(.+)$/.exec(location.hash) ?? []
  if (given === undefined) return sessionStorage.getItem(KEY) ?? undefined
  history.replaceState(null, '', `${location.pathname}#/`)
  return decodeURIComponent(given)
}

/** It is good: the tab may keep it until it is closed. */
export function keepToken(token: string): void {
  sessionStorage.setItem(KEY, token)
}

export function forgetToken(): void {
  sessionStorage.removeItem(KEY)
}
