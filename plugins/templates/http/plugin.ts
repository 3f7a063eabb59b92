/** A part of what the guest gets of a request. */
interface Incoming {
  method: string
  path: string
  query: Record<string, string | string[]>
}

/** Answers every request: wasm-serve.yaml gives it all methods and URLs. */
export function handle({ method, path, query }: Incoming) {
  if (path !== '/') return { status: 404, body: `There is nothing at ${path}\n` }
  if (method !== 'GET') return { status: 405, headers: { allow: 'GET' } }
  const { name = 'World' } = query
  return {
    status: 200,
    headers: { 'content-type': 'text/html; charset=utf-8' },
    body: `<h1>Hello, ${escapeHtml(String(name))}!</h1>\n`,
  }
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
