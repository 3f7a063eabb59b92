import fs from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { FD_FOLDER } from '../../lib/platform/descriptors.js'
import { Directory } from '../../lib/runtime/wasi/directory.js'
import { Folder } from '../../lib/runtime/wasi/folder.js'

/*
 * A thread that does one thing to a folder, again and again, until its parent says stop; then it tells how often it did
 * it, and what it should not have seen. Built code: a thread runs no TypeScript on Node 20.
 */

const { task, box, names, secret, state } = workerData
const flag = new Int32Array(state)
const [PREPARING, RUNNING] = [0, 1]
const pick = (list) => list[Math.floor(Math.random() * list.length)]
const path = () => Array.from({ length: 1 + Math.floor(Math.random() * 4) }, () => pick(names)).join('/')

/** @type {{ done: number, leaks: string[] }} */
const report = { done: 0, leaks: [] }
const run = { guest, observer, swapper }[task]()
parentPort.postMessage('ready')
Atomics.wait(flag, 0, PREPARING)
while (Atomics.load(flag, 0) === RUNNING) {
  try {
    run()
    report.done++
  } catch (error) {
    if (!error.code) throw error // refusals have a code
  }
}
parentPort.postMessage(report)

/** Makes, moves and removes folders, files and links by WASI, and reads what it finds. */
function guest() {
  const outer = new Folder(Directory.open(box, FD_FOLDER), false, '/')
  const inner = new Folder(Directory.open(`${box}/site`, FD_FOLDER), false, '/site')
  const targets = [
    '../x',
    '../../x',
    '../../../x',
    'x',
    './x',
    '.',
    '..',
    'a/..',
    'a/../../x',
    `${box}/../x`,
    ...names,
  ]
  const bytes = Buffer.alloc(secret.length)
  const read = {
    read: true,
    write: false,
    append: false,
    create: false,
    exclusive: false,
    truncate: false,
    directory: false,
  }
  const actions = [
    (folder) => folder.createDirectory(path()),
    (folder) => folder.createDirectory(path()),
    (folder) => folder.symlink(pick(targets), path()),
    (folder) => folder.symlink(pick(targets), path()),
    (folder) => folder.rename(path(), pick([outer, inner]), path()),
    (folder) => folder.rename(path(), pick([outer, inner]), path()),
    (folder) => folder.link(path(), false, pick([outer, inner]), path()),
    (folder) => folder.unlink(path()),
    (folder) => folder.removeDirectory(path()),
    (folder) => {
      const file = folder.open(path(), true, read)
      try {
        bytes.fill(0)
        file.read(bytes, 0, bytes.length)
        if (bytes.toString() === secret) report.leaks.push('a guest has read it')
      } finally {
        file.close()
      }
    },
    (folder) =>
      folder.open(path(), true, { ...read, read: false, write: true, create: true, truncate: true }).close(),
  ]
  return () => pick(actions)(pick([outer, inner]))
}

/** Another program of the host, which follows links. */
function observer() {
  return () => {
    const at = `${box}/${path()}`
    if (fs.readFileSync(at, 'utf8') === secret) report.leaks.push(`${at} leads out`)
  }
}

/** A process with all rights, which swaps a folder and a file for links that lead out. */
function swapper() {
  const folder = `${box}/site/swap`
  const file = `${box}/site/swap.txt`
  fs.mkdirSync(folder, { recursive: true })
  fs.writeFileSync(`${folder}/x`, 'decoy')
  fs.writeFileSync(file, 'decoy')
  return () => {
    for (const [name, target] of [
      [folder, '../..'],
      [file, '../../x'],
    ]) {
      fs.renameSync(name, `${name}.kept`)
      fs.symlinkSync(target, name)
      fs.unlinkSync(name)
      fs.renameSync(`${name}.kept`, name)
    }
  }
}
