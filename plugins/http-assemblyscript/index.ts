import { first, Request, Response } from './http.ts'
import { quoted } from './json.ts'

/** Answers all requests of a route such as `/*`. */
export function handle(): i32 {
  return answer(Request.read()).write()
}

function answer(request: Request): Response {
  const isGet = request.method === 'GET' || request.method === 'HEAD'
  const isPost = request.method === 'POST'
  if (isGet && request.path.startsWith('/hello/')) return hello(request, request.path.substring(7))
  if (isPost && request.path === '/echo') return echo(request)
  if (isPost && request.path === '/login') return login(request)
  return new Response(404).json('{"error":"not found"}')
}

/** `GET /hello/Bob?greeting=Hi` */
function hello(request: Request, name: string): Response {
  const message = `🦀 ${first(request.query, 'greeting', 'Hello')} ${name}`
  return new Response(200).json(`{"message":${quoted(message)}}`)
}

/** `POST /echo`: the same bytes, as what they were sent. */
function echo(request: Request): Response {
  const kind = first(request.headers, 'content-type', 'application/octet-stream')
  return new Response(200).header('content-type', kind).bytes(request.body)
}

/** `POST /login` with a name: two cookies, and on to the greeting. */
function login(request: Request): Response {
  let name = ''
  for (let i = 0; i < request.body.length; i++) {
    const letter = String.fromCharCode(request.body[i])
    if (
      (letter >= '0' && letter <= '9') ||
      (letter >= 'A' && letter <= 'Z') ||
      (letter >= 'a' && letter <= 'z')
    ) {
      name += letter
    }
  }
  return new Response(303)
    .header('set-cookie', `user=${name}; HttpOnly`)
    .header('set-cookie', 'seen=1')
    .header('location', `/hello/${name}`)
}

// biome-ignore lint/correctness/noUnusedVariables: build.sh names it; asc's own would be imported from `env`.
function abort(_message: string | null, _file: string | null, _line: u32, _column: u32): void {
  // The trap that follows says enough.
}
