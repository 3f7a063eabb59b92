import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join, resolve } from 'node:path'

/**
 * Writes the files of a ConfigMap or Secret into a folder as the kubelet does: the files are links through `..data`, a link
 * to a folder that is replaced as a whole. All files change in one step.
 *
 * @see {@link https://pkg.go.dev/k8s.io/kubernetes/pkg/volume/util#AtomicWriter}
 */
export function writeConfigMap(folder: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  mkdirSync(folder, { recursive: true })
  const old = readdirSync(folder).includes('..data') ? readlinkSync(join(folder, '..data')) : undefined
  const next = mkdtempSync(join(folder, '..2026_11_24_'))
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(next, name), bytes)
  symlinkSync(basename(next), join(folder, '..data_tmp'))
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  const visible = readdirSync(folder).filter((name) => !name.startsWith('..'))
  for (const name of Object.keys(files))
    if (!visible.includes(name)) symlinkSync(join('..data', name), join(folder, name))
  for (const name of visible) if (!(name in files)) rmSync(join(folder, name))
  if (old !== undefined) rmSync(resolve(folder, old), { recursive: true })
}
