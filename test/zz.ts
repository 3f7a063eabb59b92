import { readJson } from '../src/contract/json-output.ts'

const cpu = (f: () => void) => {
  const a = process.cpuUsage()
  try {
    f()
  } catch {}
  const c = process.cpuUsage(a)
  return ((c.user + c.system) / 8000).toFixed(1)
}
const L = { what: 'x', depth: 1000, items: 64 }
const mk = (b: string, p: string, e: string) =>
  Buffer.concat([Buffer.from(b), Buffer.alloc((8 << 20) - ((8 << 20) % p.length), p), Buffer.from(e)])
const docs = {
  zeros: mk('{"a":[0', ',0', ']}'),
  objs: mk('{"a":[{}', ',{}', ']}'),
  ws: mk('{"a":', ' ', '1}'),
  num: mk('{"a":1', '1', '}'),
  strs: mk('{"a":[""', ',""', ']}'),
  str: mk('{"a":"\\n', 'a', '"}'),
  esc: mk('{"a":"', '\\n', '"}'),
}
for (const [n, d] of Object.entries(docs))
  console.log(n, Array.from({ length: 6 }, () => cpu(() => readJson(d, (o) => o.members(L)))).join(' '))
const b = docs.zeros
let x = 0
console.log(
  'int loop',
  Array.from({ length: 4 }, () =>
    cpu(() => {
      let s = 0
      for (let i = 0; i < b.length; i++) s = (s + (b[i] as number)) | 0
      x ^= s
    }),
  ).join(' '),
)
