/** Answers every request: wasm-serve.yaml gives it all methods and URLs. */
export function handle({ method, path, query }) {
  if (path !== '/') return { status: 404, body: `There is nothing at ${path}\n` }
  if (method !== 'GET') return { status: 405, headers: { allow: 'GET' } }
  const { name = 'World' } = query
  return {
    status: 200,
    headers: { 'content-type': 'text/html; charset=utf-8' },
    body: `<h1>Hello, ${escapeHtml(String(name))}!</h1>\n`,
  }
}

function escapeHtml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
