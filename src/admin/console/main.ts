import { AdminApi, Refused } from './admin-api.ts'
import { openCall } from './call-view.ts'
import { openChanges } from './changes-view.ts'
import { openLogs } from './log-view.ts'
import { openPlugin } from './plugin-view.ts'
import { openPlugins } from './plugins-view.ts'
import { openRoutes } from './routes-view.ts'
import { Server } from './server.ts'
import { askForToken } from './sign-in.ts'
import { StateLine } from './state-line.ts'
import { forgetToken, keepToken, takeToken } from './token.ts'
import type { OpenView, View } from './view.ts'

/* The page: lets in who has the token, and shows the view that the address names. */

const VIEWS: Readonly<Record<string, OpenView>> = {
  '': openRoutes,
  plugins: (server, rest) => (rest === '' ? openPlugins(server, rest) : openPlugin(server, rest)),
  call: openCall,
  changes: openChanges,
  log: openLogs,
}

const main = find('main')
const nav = find('nav')
const notice = find('notice')
let server: Server | undefined
let view: View | undefined

addEventListener('hashchange', () => {
  const token = takeTokenOfAddress()
  if (token !== undefined) void enter(token)
  else if (server) show(true)
})

const token = takeToken()
if (token === undefined) signIn(undefined)
else void enter(token)

/** Somebody may open the printed address in a tab that is open. */
function takeTokenOfAddress(): string | undefined {
  return location.hash.startsWith('#token=') ? takeToken() : undefined
}

async function enter(token: string): Promise<void> {
  server?.close()
  const state = new StateLine(find('state'), (isPaused) => server?.pause(isPaused))
  const entered = new Server(new AdminApi(token), {
    live() {
      state.live(entered)
      view?.live?.()
    },
    changed: () => view?.changed?.(),
    trouble(problem) {
      if (problem?.status === 401) return leave(problem)
      state.trouble(problem)
      tell(
        problem &&
          `${problem.message} The numbers below are the last that it told; the console goes on asking.`,
      )
    },
  })
  try {
    await entered.start()
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return leave(error)
  }
  keepToken(token)
  server = entered
  nav.hidden = false
  show(false)
}

function leave({ status, message }: Refused): void {
  server?.close()
  server = undefined
  view = undefined
  nav.hidden = true
  find('state').hidden = true
  tell(undefined)
  if (status === 401) forgetToken()
  signIn(
    status === 401
      ? 'The server does not know this token. Was it started again? Then it has made another.'
      : message,
  )
}

function signIn(problem: string | undefined): void {
  document.title = 'Admin token – wasm-serve console'
  askForToken(main, problem, (token) => void enter(token))
}

/** @param isMoved - Whether somebody has gone there: then the reading goes on at the heading. */
function show(isMoved: boolean): void {
  if (!server) return
  const [, name = '', rest = ''] = /^#?\/?([^/]*)\/?(.*)$/.exec(location.hash) ?? []
  const open = VIEWS[name] ?? openRoutes
  view = open(server, decodeURIComponent(rest))
  view.live?.()
  document.title = `${view.title} – wasm-serve console`
  main.replaceChildren(view.node)
  for (const link of nav.querySelectorAll('a')) {
    const isHere = link.hash === `#/${name}`
    if (isHere) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  if (!isMoved) return
  scrollTo(0, 0)
  main.focus({ preventScroll: true })
}

function tell(text: string | undefined): void {
  notice.hidden = text === undefined
  notice.textContent = text ?? ''
}

function find(id: string): HTMLElement {
  const found = document.getElementById(id)
  if (!found) throw new Error(`The page has no element ${id}`)
  return found
}
